mod matmul;
