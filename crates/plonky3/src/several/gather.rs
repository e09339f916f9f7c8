//! Rows and nodes that queries read, from the devices that have them.

use rigel_gpu::{Plain, ViewMut};
use rigel_kernels::Matrix;
use rigel_kernels::commit::merkle::{MerkleTree, Node, frontier};
use rigel_kernels::layout::permute;

use super::team::Team;
use crate::base::error::Result;
use crate::phases::gathered::Gathered;
use crate::upstream::config::{Base, DeviceConfig, Digest};

/// Rows of a matrix of which each of the first devices has a block, equal in height.
pub(crate) struct Rows<'a, SC: DeviceConfig> {
    pub(crate) blocks: Vec<&'a Matrix<Base<SC>>>,
    pub(crate) indices: Vec<usize>,
}

/// A tree of which each of the first devices has a subtree, equal in height, and the first what is above them.
pub(crate) struct Forest<'a, SC: DeviceConfig> {
    pub(crate) trees: Vec<&'a MerkleTree<SC::Hash>>,
    pub(crate) top: Option<&'a MerkleTree<SC::Hash>>,
}

/// The rows of each request, one after another. Waits for the devices.
pub(crate) fn rows<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    requests: &[Rows<'_, SC>],
) -> Result<Vec<Vec<Base<SC>>>> {
    let places = |request: &Rows<'_, SC>| {
        let rows = request.blocks[0].rows();
        request.indices.iter().map(|index| (index / rows, (index % rows) as u32)).collect()
    };
    let places: Vec<Vec<(usize, u32)>> = requests.iter().map(places).collect();
    let width = |request: usize| requests[request].blocks[0].columns();
    collect(team, &places, width, |request, k, room, indices| {
        let block = requests[request].blocks[k];
        Ok(permute::gather_rows_at_into(&team.streams[k], room, block.values().view(), block.rows(), indices)?)
    })
}

/// The nodes of each forest that prove these leaves, as [`MerkleTree::open_pruned`] gives them. Waits for the
/// devices.
pub(crate) fn paths<SC: DeviceConfig>(
    team: &Team<'_, SC>,
    requests: &[(Forest<'_, SC>, Vec<usize>)],
) -> Result<Vec<Vec<Digest<SC>>>> {
    let mut places = Vec::with_capacity(2 * requests.len());
    for (forest, leaves) in requests {
        let below = forest.trees[0].depth();
        let depth = below + forest.trees.len().ilog2();
        // Layers come in ascending order, so those of the top are last.
        let nodes = frontier(leaves, depth - team.first().cap_height().min(depth));
        let (lower, upper): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(|node| node.layer <= below);
        let place = |node: Node| {
            let log_nodes = below - node.layer;
            (node.index >> log_nodes, Node { index: node.index & ((1 << log_nodes) - 1), ..node })
        };
        places.push(lower.into_iter().map(place).collect::<Vec<_>>());
        places.push(upper.into_iter().map(|node| (0, Node { layer: node.layer - below, ..node })).collect());
    }
    let digests = collect(
        team,
        &places,
        |_| 1,
        |request, k, room, nodes| {
            let forest = &requests[request / 2].0;
            let tree = if request % 2 == 0 { forest.trees[k] } else { forest.top.expect("it has these nodes") };
            Ok(tree.gather_into(&team.streams[k], room, nodes)?)
        },
    )?;
    Ok(digests.chunks_exact(2).map(|parts| parts.concat()).collect())
}

/// Reads requests, each a list of devices and places there, in one copy from each device. `width` is the number of
/// values at a place of a request; `read` writes the values at some places on a device to a room.
fn collect<SC: DeviceConfig, T: Plain, P: Copy>(
    team: &Team<'_, SC>,
    requests: &[Vec<(usize, P)>],
    width: impl Fn(usize) -> usize,
    read: impl Fn(usize, usize, ViewMut<'_, T>, &[P]) -> Result<()>,
) -> Result<Vec<Vec<T>>> {
    let mut by_device = team.each(|(k, session)| {
        let of_device = |request: &[(usize, P)]| -> Vec<P> {
            request.iter().filter(|place| place.0 == k).map(|place| place.1).collect()
        };
        let places: Vec<Vec<P>> = requests.iter().map(|request| of_device(request)).collect();
        let length = |(request, places): (usize, &Vec<P>)| places.len() * width(request);
        let total = places.iter().enumerate().map(length).sum();
        let mut gathered = Gathered::<T>::new(&session.stream, total)?;
        for (request, places) in places.iter().enumerate() {
            let room = gathered.room(places.len() * width(request))?;
            if !places.is_empty() {
                read(request, k, room, places)?;
            }
        }
        Ok(Some(gathered))
    })?;
    let found = team.each(|(k, session)| by_device[k].take().expect("one a device").download(&session.stream))?;
    let in_order = |(request, places): (usize, &Vec<(usize, P)>)| {
        let (width, mut taken) = (width(request), vec![0; found.len()]);
        let mut values = Vec::with_capacity(places.len() * width);
        for &(k, _) in places {
            values.extend_from_slice(&found[k][request][taken[k]..taken[k] + width]);
            taken[k] += width;
        }
        values
    };
    Ok(requests.iter().enumerate().map(in_order).collect())
}
