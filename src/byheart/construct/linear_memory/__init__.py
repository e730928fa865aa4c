"""Linear associative memories (Cabannes et al. 2024): one d × d matrix W for N associations, read as argmax_y u_y·W e_x.

e_x is the embedding of input x and u_y the embedding of output y."""
