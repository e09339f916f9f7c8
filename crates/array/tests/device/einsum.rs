//! Sums of products over named axes. `crates/python/tests/test_einsum.py` compares them with NumPy's.

use rigel_array::{Array, Device, Error, Type};

use crate::{counting, on_each_device, random, scalars};

fn einsum(subscripts: &str, operands: &[&Array]) -> Array {
    let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
    Array::einsum(subscripts, &operands).unwrap()
}

#[test]
fn products_and_sums_are_what_they_name() {
    on_each_device(|device| {
        let (a, b) = (counting(&[3, 4], device), counting(&[4, 5], device));
        let same = |found: Array, expected: Array| {
            assert_eq!(found.shape(), expected.shape());
            assert_eq!(scalars(&found), scalars(&expected));
        };
        same(einsum("ij,jk->ik", &[&a, &b]), a.matmul(&b).unwrap());
        same(einsum("ij,jk->ki", &[&a, &b]), a.matmul(&b).unwrap().transpose());
        same(einsum("ij", &[&a]), a.clone());
        same(einsum("ji", &[&a]), a.transpose());
        same(einsum("ij->", &[&a]), a.sum(..).unwrap());
        same(einsum("ij,ij->i", &[&a, &a]), a.mul(&a).unwrap().sum(1).unwrap());
        same(einsum("... , ...", &[&a, &a]), a.mul(&a).unwrap());
        let chained = a.matmul(&b).unwrap().matmul(&b.transpose()).unwrap();
        same(einsum("ij,jk,lk->il", &[&a, &b, &b]), chained);
        let empty = counting(&[3, 0], device);
        same(einsum("ij,kj->ik", &[&empty, &empty]), Array::zeros(&[3, 3], Type::I64, device).unwrap());
    });
}

#[test]
fn fields_are_exact() {
    on_each_device(|device| {
        let (a, b) =
            (random(&[2, 3, 4], Type::KoalaBear, 1, device), random(&[2, 4, 5], Type::KoalaBear, 2, device));
        let found = einsum("bij,bjk->bik", &[&a, &b]);
        assert_eq!(scalars(&found), scalars(&a.matmul(&b).unwrap()));
        let square = random(&[3, 3], Type::KoalaBear, 3, device);
        let cells = scalars(&square);
        assert_eq!(scalars(&einsum("ii->i", &[&square])), [cells[0], cells[4], cells[8]]);
        let small = counting(&[3], device).astype(Type::I32).unwrap();
        assert_eq!(einsum("i->", &[&small]).dtype(), Type::I32);
    });
}

#[test]
fn wrong_subscripts_say_what_is_wrong() {
    let (a, b) = (counting(&[3, 4], &Device::Cpu), counting(&[3, 3], &Device::Cpu));
    let refused = |subscripts: &str, operands: &[&Array]| {
        let operands: Vec<Array> = operands.iter().map(|&operand| operand.clone()).collect();
        match Array::einsum(subscripts, &operands) {
            Err(Error::Shape(text)) => text,
            other => panic!("{subscripts}: {other:?}"),
        }
    };
    assert!(refused("ij,jk", &[&a]).contains("subscripts of 2 operands, but 1 are given"));
    assert!(refused("ijk", &[&a]).contains("\"ijk\" names 3 axes of operand 0, which has 2"));
    assert!(refused("i", &[&a]).contains("names 1 axes"));
    assert!(refused("ij,jk", &[&a, &b]).contains("'j' has length 3 in operand 1"));
    assert!(refused("ii", &[&a]).contains("'i' has length 4 in operand 0"));
    assert!(refused("ij->ik", &[&a]).contains("'k' of the result is in no operand"));
    assert!(refused("ij->ii", &[&a]).contains("'i' occurs twice in the result"));
    assert!(refused("i1", &[&a]).contains("'1' is not a letter"));
    assert!(refused("i..", &[&a]).contains("dots"));
    assert!(refused("......", &[&a]).contains("dots"));
    assert!(refused("ij->j->i", &[&a]).contains("'-' is not a letter"));
    assert!(refused("...j->j", &[&a]).contains("no '...'"));
    assert!(Array::einsum("", &[]).is_err());
    assert!(matches!(Array::einsum("i", &[a.eq(1).unwrap().reshape(&[-1]).unwrap()]), Err(Error::Type(_))));
}
