//! Slices, transposes, reshapes, broadcasts and joins against loops over indices.

use rigel_array::{Array, Index, Type};

use crate::{counting, on_each_device, random};

fn range(start: Option<isize>, stop: Option<isize>, step: isize) -> Index {
    Index::Range { start, stop, step }
}

#[test]
fn slices_with_steps_pick_what_python_picks() {
    on_each_device(|device| {
        let a = counting(&[5, 7], device);
        let part = a.index(&[range(Some(-1), None, -2), range(Some(1), Some(6), 3)]).unwrap();
        assert_eq!(part.shape(), [3, 2]);
        assert_eq!(part.to_vec::<i64>().unwrap(), [29, 32, 15, 18, 1, 4]);
        let row = a.index(&[Index::At(-2)]).unwrap();
        assert_eq!(row.to_vec::<i64>().unwrap(), [21, 22, 23, 24, 25, 26, 27]);
        let none = a.index(&[range(Some(3), Some(3), 1)]).unwrap();
        assert_eq!((none.shape(), none.to_vec::<i64>().unwrap()), (&[0, 7][..], vec![]));
        let last = a.index(&[Index::Ellipsis, Index::NewAxis, Index::At(0)]).unwrap();
        assert_eq!((last.shape(), last.to_vec::<i64>().unwrap()), (&[5, 1][..], vec![0, 7, 14, 21, 28]));
    });
}

#[test]
fn permuted_and_reshaped_elements_keep_their_order() {
    on_each_device(|device| {
        let a = counting(&[3, 4, 5], device);
        let b = a.permute(&[2, 0, -2]).unwrap();
        let mut expected = Vec::new();
        for i in 0..5 {
            for j in 0..3 {
                for k in 0..4 {
                    expected.push(j * 20 + k * 5 + i);
                }
            }
        }
        assert_eq!(b.to_vec::<i64>().unwrap(), expected);
        assert_eq!(b.reshape(&[4, -1]).unwrap().to_vec::<i64>().unwrap(), expected);
        assert_eq!(b.contiguous().unwrap().to_vec::<i64>().unwrap(), expected);
        assert_eq!(a.transpose().transpose().to_vec::<i64>().unwrap(), a.to_vec::<i64>().unwrap());
    });
}

#[test]
fn transposes_of_every_type_are_copied_right() {
    on_each_device(|device| {
        for of in [Type::Bool, Type::I32, Type::F64, Type::C128, Type::QM31, Type::Goldilocks3] {
            let a = random(&[37, 70], of, 5, device);
            let mut bytes = vec![0; a.bytes()];
            a.read_into(&mut bytes).unwrap();
            let mut transposed = vec![0; a.bytes()];
            a.transpose().read_into(&mut transposed).unwrap();
            let size = of.bytes();
            for i in 0..37 {
                for j in 0..70 {
                    let (from, to) = ((i * 70 + j) * size, (j * 37 + i) * size);
                    assert_eq!(bytes[from..from + size], transposed[to..to + size], "{of:?} at {i}, {j}");
                }
            }
        }
    });
}

#[test]
fn a_write_through_one_view_is_visible_through_all() {
    on_each_device(|device| {
        let a = counting(&[4, 4], device);
        let column = a.index(&[Index::ALL, Index::At(1)]).unwrap();
        column.assign(-1).unwrap();
        a.index(&[range(None, None, 3)]).unwrap().assign(counting(&[4], device)).unwrap();
        assert_eq!(a.to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, -1, 6, 7, 8, -1, 10, 11, 0, 1, 2, 3]);
        // Overlapping source and target.
        let line = counting(&[6], device);
        let (front, back) = (line.index(&[(0..5).into()]).unwrap(), line.index(&[(1..6).into()]).unwrap());
        back.assign(&front).unwrap();
        assert_eq!(line.to_vec::<i64>().unwrap(), [0, 0, 1, 2, 3, 4]);
        line.assign(line.lazy() * &line).unwrap();
        assert_eq!(line.to_vec::<i64>().unwrap(), [0, 0, 1, 4, 9, 16]);
    });
}

#[test]
fn joined_arrays_follow_each_other() {
    on_each_device(|device| {
        let (a, b) = (counting(&[2, 3], device), counting(&[2, 1], device));
        let joined = Array::concatenate(&[a.clone(), b, a.transpose().transpose()], 1).unwrap();
        assert_eq!(joined.to_vec::<i64>().unwrap(), [0, 1, 2, 0, 0, 1, 2, 3, 4, 5, 1, 3, 4, 5]);
        let stacked = Array::stack(&[a.clone(), a.mul(10).unwrap()], -1).unwrap();
        assert_eq!(stacked.shape(), [2, 3, 2]);
        assert_eq!(stacked.to_vec::<i64>().unwrap(), [0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50]);
        let mixed = Array::concatenate(&[a.clone(), a.astype(Type::F64).unwrap()], 0).unwrap();
        assert_eq!((mixed.dtype(), mixed.shape()), (Type::F64, &[4, 3][..]));
    });
}

#[test]
fn text_is_numpys() {
    on_each_device(|device| {
        let device_text = if device.is_cpu() { String::new() } else { format!(", device='{device}'") };
        let a = counting(&[2, 3], device);
        assert_eq!(a.to_repr().unwrap(), format!("array([[0, 1, 2],\n       [3, 4, 5]]{device_text})"));
        let b = Array::from_slice(&[1.0, 2.5, -0.125], &[3], device).unwrap();
        assert_eq!(b.to_text().unwrap(), "[ 1.   ,  2.5  , -0.125]");
        let c = counting(&[2000], device).astype(Type::F32).unwrap();
        assert_eq!(
            c.to_repr().unwrap(),
            format!(
                "array([0.000e+00, 1.000e+00, 2.000e+00, ..., 1.997e+03, 1.998e+03,\n       \
                 1.999e+03], dtype=float32{device_text})"
            )
        );
        let d = counting(&[2], device).sub(1).unwrap().astype(Type::KoalaBear).unwrap();
        assert_eq!(d.to_repr().unwrap(), format!("array([2130706432,          0], dtype=koalabear{device_text})"));
    });
}

#[test]
fn memory_imported_twice_is_one_memory() {
    // The same foreign memory imported twice: two arrays over one memory, which `numbers` owns.
    let n = 1 << 17;
    let mut numbers: Vec<f64> = (0..n).map(f64::from).collect();
    let at = std::ptr::NonNull::new(numbers.as_mut_ptr().cast::<u8>()).unwrap();
    let adopt = || {
        let (bytes, shape) = (8 * n as usize, [n as usize]);
        // SAFETY: `numbers` outlives both arrays and is not accessed meanwhile.
        unsafe { Array::from_host_memory(at, bytes, &shape, &[1], 0, Type::F64, Box::new(())) }.unwrap()
    };
    let (a, b) = (adopt(), adopt());
    a.index(&[(1..n as isize).into()]).unwrap().assign(b.index(&[(0..n as isize - 1).into()]).unwrap()).unwrap();
    let found = a.to_vec::<f64>().unwrap();
    drop((a, b));
    assert_eq!(found[0], 0.0);
    assert!((1..n as usize).all(|i| found[i] == i as f64 - 1.0));
}

#[test]
fn elements_read_in_another_type_are_read_before_they_are_written() {
    on_each_device(|device| {
        let n = 5000;
        let x = random(&[n], Type::KoalaBear4, 1, device);
        let first = x.coefficients().unwrap().reshape(&[-1]).unwrap().index(&[(0..n as isize).into()]).unwrap();
        let expected = first.copy().unwrap().astype(Type::KoalaBear4).unwrap();
        x.assign(&first).unwrap();
        assert!(x.eq(&expected).unwrap().to_bools().unwrap().iter().all(|&equal| equal));
    });
}

#[test]
fn broadcasts_are_not_written_to() {
    on_each_device(|device| {
        let a = counting(&[1, 4], device);
        let wide = a.broadcast_to(&[3, 4]).unwrap();
        assert!(!wide.is_writable() && a.is_writable());
        assert!(wide.assign(1).unwrap_err().to_string().contains("share elements"));
        assert_eq!(a.to_vec::<i64>().unwrap(), [0, 1, 2, 3]);
    });
}

#[test]
fn empty_slices_and_many_axes_have_no_surprises() {
    on_each_device(|device| {
        let empty = Array::zeros(&[0, 5], Type::F64, device).unwrap().index(&[Index::ALL, (3..5).into()]).unwrap();
        assert_eq!((empty.shape(), empty.to_vec::<f64>().unwrap()), (&[0, 2][..], vec![]));
        assert!(empty.to(&rigel_array::Device::Cpu).unwrap().is_empty());
        let deep = counting(&[2; 9], device).transpose();
        let expected: Vec<i64> = (0i64..512).map(|i| (i as u64).reverse_bits() as i64 >> 55 & 511).collect();
        assert_eq!(deep.to_vec::<i64>().unwrap(), expected);
        assert!(counting(&[16], device).reshape(&[16, (1 << 60) + 1]).is_err());
        assert!(counting(&[1], device).broadcast_to(&[1 << 32, 1 << 32]).is_err());
        let one = counting(&[4], device).index(&[range(None, None, 1 << 62)]).unwrap();
        assert_eq!(one.to_vec::<i64>().unwrap(), [0]);
        assert!(Array::zeros(&[1; 65], Type::F64, device).is_err());
    });
}
