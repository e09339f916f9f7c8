mod elementwise;
mod inverse;
mod powers;
mod reduce;
mod scan;
