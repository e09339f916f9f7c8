mod arrange;
mod matmul;
