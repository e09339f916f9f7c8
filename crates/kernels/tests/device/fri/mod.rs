mod circle_fold;
mod fold;
mod fold_coefficients;
mod grind;
