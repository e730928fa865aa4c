"""Linear associative memories (Cabannes et al. 2024): argmax_y u_y·W e_x, with one d × d matrix for N associations."""
