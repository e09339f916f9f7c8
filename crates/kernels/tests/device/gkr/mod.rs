mod multilinear;
