mod circle_fold;
mod fold;
mod grind;
