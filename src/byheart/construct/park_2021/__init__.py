"""Park, Lee, Yun & Shin 2021: about N^(2/3) parameters. Read `arrangement` (where points go), `program` (how), `theorem`."""
