//! A fault put into each view on purpose, and the test that notices it.

use crate::chromium::fails_with;
use crate::views;

#[test]
#[ignore = "needs Chromium: apt-get install chromium"]
fn a_fault_in_any_view_fails_its_test() {
    // pointing at a query no longer singles it out
    let head = (
        "active.queries = this.hover.side === \"queries\" ? [this.hover.at] : [];",
        "active.queries = [];",
    );
    assert!(fails_with(
        head,
        views::head_view_shows_one_token_while_it_is_pointed_at_on_either_side
    ));
    // the keyboard stops at a pruned head
    let model = ("} while (!this.sheet.has(layer, head));", "} while (false);");
    assert!(fails_with(model, views::model_view_walks_through_heads_and_opens_one));
    // rows and columns change places under the pointer
    let matrix = (
        "data[i * columns.length + j].toPrecision(4)",
        "data[j * columns.length + i].toPrecision(4)",
    );
    assert!(fails_with(matrix, views::matrix_view_tells_every_cell_and_zooms));
    // the square root of the head's width is forgotten
    let neuron = ("score: dot * data.factor + term", "score: dot + term");
    assert!(fails_with(neuron, views::neuron_view_adds_up_to_the_weights));
    // the residual does not reach the layer below
    let flow = ("below[i] += share * residual / sum;", "");
    assert!(fails_with(flow, views::flow_view_is_rollout_and_shows_what_the_mask_alone_gives));
}
