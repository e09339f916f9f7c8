mod elementwise;
mod fractions;
mod inverse;
mod powers;
mod reduce;
mod scale;
mod scan;
mod uniform;
