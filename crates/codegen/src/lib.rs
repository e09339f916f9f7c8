//! Expression graphs over finite fields, compiled to GPU kernels.
