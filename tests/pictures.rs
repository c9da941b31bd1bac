//! Pictures, by value: every cell read back, labels in their places, the same bytes every time.

use attnviz::picture::{
    Area, BELOW, Colormap, Format, LEVELS, Layout, MAX_SIDE, Rgb, Scale, Span, Style, TextEngine,
    View, grid, grid_layout, heatmap, heatmap_layout,
};
use attnviz::{Attention, Head, HeadWeights, Token};
use ndarray::{Array2, array};
use rayon::prelude::*;

/// Decoded pixels.
struct Image {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
    dpi: Option<u32>,
    indexed: bool,
}

impl Image {
    fn decode(file: &[u8]) -> Self {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let indexed = reader.info().color_type == png::ColorType::Indexed;
        let dpi = reader.info().pixel_dims.map(|dims| (dims.xppu as f64 * 0.0254).round() as u32);
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut data).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgb);
        let pixels = data.as_chunks::<3>().0.to_vec();
        Self { width: info.width as usize, height: info.height as usize, pixels, dpi, indexed }
    }

    fn at(&self, x: i32, y: i32) -> Rgb {
        self.pixels[y as usize * self.width + x as usize]
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

fn tokens(words: &[String]) -> Vec<Token> {
    words.iter().map(|text| Token { text: text.clone(), ..Token::default() }).collect()
}

/// Values that differ from cell to cell and are not symmetric.
fn uneven(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(i, j)| ((i * 37 + j * 11 + 3) % 101) as f32 / 101.0)
}

fn view(labels: &[String]) -> View {
    let count = labels.len();
    View::new("model, layer 0, head 0", labels.to_vec(), labels.to_vec(), uneven(count, count))
        .unwrap()
}

fn attention(layers: usize, heads: usize, labels: &[String]) -> Attention {
    let count = labels.len();
    let all = (0..layers).flat_map(|layer| (0..heads).map(move |head| Head { layer, head }));
    let heads_here = all.map(|head| {
        let mut weights = uneven(count, count);
        weights.mapv_inplace(|v| (v + (head.layer * 7 + head.head) as f32 * 0.01) % 1.0);
        HeadWeights { head, weights }
    });
    let heads_here = heads_here.collect();
    Attention::new(tokens(labels), tokens(labels), heads_here, vec![heads; layers]).unwrap()
}

/// The value behind a colour.
fn read(colour: Rgb, palette: &[Rgb; LEVELS], span: Span) -> f32 {
    span.value(palette.iter().position(|&c| c == colour).expect("a colour of the palette"))
}

/// How far a value may be from the one that is read back.
fn step(span: Span, value: f32) -> f32 {
    match span.bend {
        None => (span.high - span.low) / (LEVELS - 1) as f32,
        Some(bend) if value <= bend => (bend - span.low) / (BELOW - 1) as f32,
        Some(bend) => (span.high - bend) / (LEVELS - 1 - BELOW) as f32,
    }
}

/// Every pixel of every cell is the colour of its value.
fn check_values(view: &View, style: &Style) {
    let engine = TextEngine::with_fonts([]);
    let layout = heatmap_layout(view, style, &engine).unwrap();
    let image = Image::decode(&layout.render(Format::Png, &engine).unwrap());
    assert_eq!((image.width, image.height), (layout.width as usize, layout.height as usize));
    let palette = style.cmap.colours(style.dark);
    let block = &layout.blocks[0];
    assert_eq!((block.rows, block.columns), view.values.dim());
    let (width, height) = block.cell();
    assert_eq!(width, height);
    for ((row, column), &value) in view.values.indexed_iter() {
        let (left, top) =
            (block.area.left + column as i32 * width, block.area.top + row as i32 * height);
        let first = image.at(left, top);
        let got = read(first, &palette, view.span);
        assert!((got - value).abs() <= step(view.span, value), "{row},{column}: {got} for {value}");
        for (x, y) in [(0, height - 1), (width - 1, 0), (width / 2, height / 2)] {
            assert_eq!(image.at(left + x, top + y), first, "one colour a cell");
        }
    }
}

#[test]
fn every_value_is_read_back_through_every_palette() {
    let view = view(&words("the cat sat on the mat"));
    for cmap in Colormap::ALL {
        for dark in [false, true] {
            check_values(&view, &Style { cmap, dark, ..Style::default() });
        }
    }
}

#[test]
fn every_value_is_read_back_at_every_size() {
    for count in [1, 2, 15, 63, 200, 512] {
        check_values(&view(&vec!["x".to_owned(); count]), &Style::default());
    }
    check_values(&view(&words("a b c")), &Style { dpi: 333, ..Style::default() });
    check_values(&view(&words("a b c")), &Style { dpi: 50, ..Style::default() });
}

#[test]
fn a_fixed_scale_clamps_and_says_so() {
    let mut view = view(&words("a b c"));
    view.span = (0.2, 0.6).into();
    let style = Style { scale: Scale::Fixed(0.2, 0.6), ..Style::default() };
    let engine = TextEngine::with_fonts([]);
    let layout = heatmap_layout(&view, &style, &engine).unwrap();
    let palette = style.cmap.colours(false);
    for (value, colour) in view.values.iter().zip(&layout.blocks[0].colours) {
        let want = value.clamp(0.2, 0.6);
        assert!((read(*colour, &palette, view.span) - want).abs() <= 0.4 / 223.0);
    }
    assert!(layout.texts.iter().any(|text| text.text.contains("end colours")));
}

/// A causal head that rests on the first token, and gives a tenth of its weight to others.
fn resting(count: usize) -> Attention {
    let labels: Vec<String> = (0..count).map(|i| format!("w{i}")).collect();
    let weights = Array2::from_shape_fn((count, count), |(row, column)| match column {
        0 if row == 0 => 1.0,
        0 => 0.9,
        _ if column <= row => {
            let all: usize = (1..=row).map(|c| (c * 7 + row) % 5 + 1).sum();
            0.1 * ((column * 7 + row) % 5 + 1) as f32 / all as f32
        }
        _ => 0.0,
    });
    let head = HeadWeights { head: Head { layer: 0, head: 0 }, weights };
    Attention::new(tokens(&labels), tokens(&labels), vec![head], vec![1]).unwrap()
}

#[test]
fn a_robust_scale_shows_what_a_sink_hides_and_loses_nothing() {
    let (all, head) = (resting(24), Head { layer: 0, head: 0 });
    let picture = |scale: Scale| View::head(&all, head, "m", &scale.resolve(&all)).unwrap();
    let style = |scale| Style { scale, ..Style::default() };
    let colours = |view: &View, scale| {
        let engine = TextEngine::with_fonts([]);
        let placed = heatmap_layout(view, &style(scale), &engine).unwrap();
        let beside = |(i, c): (usize, Rgb)| (i % 24 > 0).then_some(c);
        let cells = placed.blocks[0].colours.iter().copied().enumerate();
        let distinct: std::collections::BTreeSet<Rgb> = cells.filter_map(beside).collect();
        (distinct.len(), placed)
    };
    let (plain, robust) = (picture(Scale::Head), picture(Scale::Robust));
    let Span { low, high, bend } = robust.span;
    assert_eq!((low, high), (0.0, 1.0));
    // by nearest rank: 253 of 276 - 23 weights beside the first column
    let mut beside: Vec<f32> = robust
        .values
        .columns()
        .into_iter()
        .skip(1)
        .flatten()
        .copied()
        .filter(|&weight| weight > 0.0)
        .collect();
    beside.sort_by(f32::total_cmp);
    assert_eq!(bend, Some(beside[(beside.len() as f64 * 0.99).ceil() as usize - 1]));
    let (few, straight) = colours(&plain, Scale::Head);
    let (many, placed) = colours(&robust, Scale::Robust);
    assert!(many > 2 * few, "{many} colours beside the sink, {few} without");
    check_values(&robust, &style(Scale::Robust));
    // the bar is marked where the palette bends, and only there
    let marks = |layout: &Layout| {
        let palette = Style::default().cmap.colours(false);
        layout.blocks[1].colours.iter().filter(|colour| !palette.contains(colour)).count()
    };
    assert_eq!((marks(&placed), marks(&straight)), (1, 0));
    let says = |text: &str| placed.texts.iter().any(|one| one.text.contains(text));
    assert!(says("scale: robust, this head") && says("coarser"), "{:?}", placed.texts);
    // nothing to bend at: every weight is in the first column
    let mut sink = resting(3);
    sink.heads[0].weights = array![[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]];
    let span = Scale::Robust.resolve(&sink).span(Some(0), &sink.heads[0].weights);
    assert_eq!(span, Span::from((0.0, 1.0)));
}

#[test]
fn rows_are_queries_and_columns_are_keys() {
    // only the first query attends to the last key
    let mut values = Array2::zeros((2, 3));
    values[[0, 2]] = 1.0;
    let view = View::new("t", words("q0 q1"), words("k0 k1 k2"), values).unwrap();
    let style = Style::default();
    let engine = TextEngine::with_fonts([]);
    let placed = heatmap_layout(&view, &style, &engine).unwrap();
    let [top, .., _] = style.cmap.colours(false);
    let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
    let matrix = placed.blocks[0].area;
    let strongest = style.cmap.colours(false)[LEVELS - 1];
    assert_eq!(image.at(matrix.right - 1, matrix.top), strongest);
    assert_eq!(image.at(matrix.left, matrix.bottom - 1), top);
    assert_eq!(image.at(matrix.left, matrix.top), top);

    // labels stand beside what they name: rows left of it, columns above it, turned
    let cell = placed.blocks[0].cell().0;
    for (i, name) in ["q0", "q1"].iter().enumerate() {
        let label = find(&placed, name);
        assert!(label.right < matrix.left);
        let middle = matrix.top + i as i32 * cell + cell / 2;
        assert!(label.top < middle && middle < label.bottom, "{name}");
    }
    for (i, name) in ["k0", "k1", "k2"].iter().enumerate() {
        let label = find(&placed, name);
        assert!(label.bottom < matrix.top);
        let middle = matrix.left + i as i32 * cell + cell / 2;
        assert!(label.left < middle && middle < label.right, "{name}");
    }

    // the same in the SVG: the strongest cell is at the top right
    let svg = String::from_utf8(placed.render(Format::Svg, &engine).unwrap()).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let [r, g, b] = strongest;
    let colour = format!("#{r:02X}{g:02X}{b:02X}");
    let number = |node: &roxmltree::Node<'_, '_>, name| -> i32 {
        node.attribute(name).unwrap().parse().unwrap()
    };
    let strong: Vec<_> = document
        .descendants()
        .filter(|n| n.tag_name().name() == "rect" && n.attribute("fill") == Some(&colour))
        .collect();
    assert_eq!(strong.len(), 1);
    assert_eq!(number(&strong[0], "x"), matrix.right - cell);
    assert_eq!(number(&strong[0], "y"), matrix.top);
}

fn find(layout: &Layout, text: &str) -> Area {
    layout.texts.iter().find(|placed| placed.text == text).unwrap().area
}

/// Texts inside the picture, apart from each other and off the matrix.
fn check_texts(placed: &Layout, on_cells: bool) {
    let picture = Area { left: 0, top: 0, right: placed.width, bottom: placed.height };
    for (i, one) in placed.texts.iter().enumerate() {
        assert!(picture.contains(one.area), "{:?} leaves {picture:?}", one);
        for other in &placed.texts[..i] {
            assert!(!one.area.overlaps(other.area), "{one:?} on {other:?}");
        }
        for block in placed.blocks.iter().filter(|_| !on_cells) {
            assert!(!one.area.overlaps(block.area), "{one:?} on {:?}", block.area);
        }
    }
}

#[test]
fn texts_are_inside_and_apart_at_every_size() {
    let engine = TextEngine::with_fonts([]);
    let text = "[CLS] Attention weighs every (jg) token of the input against Each other , [SEP]";
    let pieces = words(text);
    for count in [1, 2, 3, 7, 15, 64, 128, 200, 512, 1000] {
        let labels: Vec<String> = (0..count).map(|i| pieces[i % pieces.len()].clone()).collect();
        for dpi in [50, 72, 100, 150, 300] {
            let style = Style { dpi, ..Style::default() };
            if count * count * dpi as usize / 100 > 600_000 {
                continue;
            }
            let view = view(&labels).with_lost(vec![0.5; count]).unwrap();
            check_texts(&heatmap_layout(&view, &style, &engine).unwrap(), false);
        }
    }
    let style = Style { annotate: true, ..Style::default() };
    for count in [2, 15, 64] {
        check_texts(
            &heatmap_layout(&view(&vec!["word".into(); count]), &style, &engine).unwrap(),
            true,
        );
    }
    let long = View { title: "a long name ".repeat(40), ..view(&words("a b")) };
    check_texts(&heatmap_layout(&long, &Style::default(), &engine).unwrap(), false);
}

/// S15: positions are rows, not texts.
#[test]
fn repeated_tokens_keep_their_rows() {
    let labels = words("the the the cat and the the cat");
    let engine = TextEngine::with_fonts([]);
    let placed = heatmap_layout(&view(&labels), &Style::default(), &engine).unwrap();
    assert_eq!((placed.blocks[0].rows, placed.blocks[0].columns), (8, 8));
    assert_eq!(placed.texts.iter().filter(|text| text.text == "the").count(), 10);
    check_values(&view(&labels), &Style::default());
}

/// S11: the boundary of a pair is marked between the labels, off the values.
#[test]
fn the_second_text_of_a_pair_is_marked() {
    let labels = words("[CLS] a b [SEP] c d [SEP]");
    let mut all = attention(1, 1, &labels);
    for token in all.queries.iter_mut().chain(&mut all.keys).filter(|t| "cd".contains(&t.text)) {
        token.type_id = 1;
    }
    all.queries[6].type_id = 1;
    all.keys[6].type_id = 1;
    let ranges = Scale::Head.resolve(&all);
    let view = View::head(&all, Head { layer: 0, head: 0 }, "m", &ranges).unwrap();
    assert_eq!((&view.row_breaks, &view.column_breaks), (&vec![4], &vec![4]));
    check_values(&view, &Style::default());
    let engine = TextEngine::with_fonts([]);
    let placed = heatmap_layout(&view, &Style::default(), &engine).unwrap();
    check_texts(&placed, false);
    let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
    let (matrix, cell) = (placed.blocks[0].area, placed.blocks[0].cell().0);
    for row in 0..7 {
        let marked = image.at(matrix.left - 4, matrix.top + row * cell) != [255; 3];
        assert_eq!(marked, row == 4, "{row}");
    }
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/fixtures/fonts/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn area_pixels(image: &Image, area: Area) -> Vec<Rgb> {
    let lines = area.top..area.bottom;
    lines
        .flat_map(|y| (area.left..area.right).map(move |x| (x, y)))
        .map(|(x, y)| image.at(x, y))
        .collect()
}

/// S16: drawn with a fallback font; without one, as code points with one warning.
#[test]
fn chinese_is_drawn_or_spelt_never_boxed() {
    let labels = words("我爱 北京 天安门 日本語 トークン 한국어 and");
    let without = TextEngine::with_fonts([]);
    let png = heatmap(&view(&labels), &Style::default(), Format::Png, &without).unwrap();
    let warnings = without.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("U+5317") && warnings[0].contains("more"), "{warnings:?}");

    let with = TextEngine::with_fonts([fixture("NotoSansCJKsc-subset.otf")]);
    let drawn = heatmap(&view(&labels), &Style::default(), Format::Png, &with).unwrap();
    assert!(with.warnings().is_empty(), "{:?}", with.warnings());
    assert_ne!(png, drawn);

    // a spelt label looks exactly like its code points typed out
    let one = |engine: &TextEngine, label: &str| {
        let view = view(&[label.to_owned(), "x".into()]);
        let placed = heatmap_layout(&view, &Style::default(), engine).unwrap();
        let image = Image::decode(&placed.render(Format::Png, engine).unwrap());
        area_pixels(&image, placed.texts[0].area)
    };
    assert_eq!(one(&without, "我"), one(&without, "U+6211"));
    assert_ne!(one(&with, "我"), one(&without, "U+6211"));
    // two characters that the fallback has differ; boxes would not
    assert_ne!(one(&with, "我"), one(&with, "爱"));
}

#[test]
fn the_embedded_fonts_box_never_shows() {
    // none of these is in the embedded font; each would be the same box
    let engine = TextEngine::with_fonts([]);
    let mut seen = std::collections::HashSet::new();
    for label in ["\u{10ffff}", "\u{e000}", "\u{4e00}", "𓀀", "\u{378}"] {
        let view = view(&[label.to_owned(), "x".into()]);
        let placed = heatmap_layout(&view, &Style::default(), &engine).unwrap();
        let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
        assert!(seen.insert(area_pixels(&image, placed.texts[0].area)), "{label:?}");
    }
    assert_eq!(engine.warnings().len(), 1);
    // what has no picture of its own gets one without a warning
    let engine = TextEngine::with_fonts([]);
    let hidden = ["\n", "\t", "\u{0}", "", " ", "\u{a0}", "\u{202e}abc", "\u{feff}", "a\u{85}b"];
    for label in hidden {
        let placed =
            heatmap_layout(&view(&[label.to_owned()]), &Style::default(), &engine).unwrap();
        let label = &placed.texts[0];
        assert!(label.area.right > label.area.left && !label.text.is_empty(), "{label:?}");
    }
    assert!(engine.warnings().is_empty(), "{:?}", engine.warnings());
}

#[test]
fn right_to_left_runs_right_to_left() {
    let engine = TextEngine::with_fonts([]);
    let ink = |label: &str| {
        let placed =
            heatmap_layout(&view(&[label.to_owned(), "x".into()]), &Style::default(), &engine)
                .unwrap();
        let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
        let area = placed.texts[0].area;
        let row = |y| (area.left..area.right).map(|x| image.at(x, y)).collect::<Vec<_>>();
        (area, (area.top..area.bottom).map(row).collect::<Vec<_>>())
    };
    // lamed, the only letter here that rises above the others, is second: right of the middle
    let (area, rows) = ink("שלוםם");
    let first = rows[0].iter().position(|&pixel| pixel != [255; 3]).unwrap() as i32;
    assert!(first > (area.right - area.left) / 2, "{first} of {area:?}");
    // joined letters are narrower than the same letters apart
    let width = |area: Area| area.right - area.left;
    assert!(width(ink("مرحبا").0) < width(ink("م ر ح ب ا").0));
}

#[test]
fn marks_are_shaped() {
    let engine = TextEngine::with_fonts([fixture("NotoSansDevanagari-subset.ttf")]);
    let area = |label: &str| {
        let view = view(&[label.to_owned(), "x".into()]);
        heatmap_layout(&view, &Style::default(), &engine).unwrap().texts[0].area
    };
    let width = |label: &str| area(label).right - area(label).left;
    // the conjunct is one glyph, not two consonants and a virama
    assert!(width("क्ष") < width("क") + width("ष"));
    assert!(engine.warnings().is_empty(), "{:?}", engine.warnings());
    // a combining acute adds height, not width
    let (plain, accented) = (area("n"), area("n\u{301}"));
    assert!(accented.bottom - accented.top > plain.bottom - plain.top);
    assert!(accented.right - accented.left <= plain.right - plain.left + 1);
}

#[test]
fn a_mark_that_fits_no_letter_is_spelt_and_the_letter_stays() {
    // the fallback font has the vowel sign, the embedded one the letter, none has both
    let engine = TextEngine::with_fonts([fixture("NotoSansDevanagari-subset.ttf")]);
    heatmap(&view(&words("7\u{93f} A\u{94d}")), &Style::default(), Format::Png, &engine).unwrap();
    let warnings = engine.warnings().concat();
    assert!(!warnings.contains("U+0037") && !warnings.contains("U+0041"), "{warnings}");
}

#[test]
fn emoji_keep_their_colours() {
    let engine = TextEngine::with_fonts([fixture("NotoColorEmoji-subset.ttf")]);
    let placed =
        heatmap_layout(&view(&["🦀".to_owned(), "x".into()]), &Style::default(), &engine).unwrap();
    let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
    let area = placed.texts[0].area;
    let red = area_pixels(&image, area).into_iter().filter(|&[r, g, _]| r > 150 && g < 100);
    assert!(red.count() > 20);
    assert!(engine.warnings().is_empty());
}

/// S17: many tokens, long tokens, a large grid.
#[test]
fn large_pictures_stay_legible() {
    let engine = TextEngine::with_fonts([]);
    let placed =
        heatmap_layout(&view(&vec!["token".into(); 200]), &Style::default(), &engine).unwrap();
    let labels = placed.texts.iter().filter(|text| text.text == "token").count();
    assert_eq!(labels, 200); // every second row, every second column
    assert!(placed.texts.iter().any(|text| text.text.contains("Every 2nd token is labelled")));

    let long = "abcdefghij".repeat(6);
    let placed = heatmap_layout(&view(&[long, "x".into()]), &Style::default(), &engine).unwrap();
    let label = &placed.texts[0];
    assert!(label.text.contains('…') && label.text.starts_with("abc"), "{label:?}");
    assert!(label.text.ends_with("hij"), "{label:?}");
    assert!(placed.width < 700, "{}", placed.width);

    let all = attention(12, 12, &vec!["token".into(); 128]);
    let placed = grid_layout(&all, "model", &[], &Style::default(), &engine).unwrap();
    check_texts(&placed, false);
    assert_eq!(placed.blocks.len(), 145);
    assert!(placed.width < 2000 && placed.height < 2000);
    let svg = grid(&all, "model", &[], &Style::default(), Format::Svg, &engine).unwrap();
    assert!(svg.len() < 6_000_000, "{}", svg.len());
}

#[test]
fn grid_cells_are_read_back_and_gaps_stay_empty() {
    let engine = TextEngine::with_fonts([]);
    let mut all = attention(3, 4, &words("a b c d e"));
    all.heads.retain(|one| one.head != Head { layer: 1, head: 2 });
    let fixed = Scale::Fixed(0.0, 1.0);
    for scale in [Scale::Head, Scale::Layer, Scale::Global, Scale::Robust, fixed] {
        let style = Style { scale, ..Style::default() };
        let ranges = scale.resolve(&all);
        let placed = grid_layout(&all, "model", &[], &style, &engine).unwrap();
        let image = Image::decode(&placed.render(Format::Png, &engine).unwrap());
        check_texts(&placed, false);
        let palette = style.cmap.colours(false);
        for (one, block) in all.heads.iter().zip(&placed.blocks) {
            let span = ranges.span(Some(one.head.layer), &one.weights);
            let (width, height) = block.cell();
            for ((row, column), &value) in one.weights.indexed_iter() {
                let x = block.area.left + column as i32 * width + width / 2;
                let y = block.area.top + row as i32 * height + height / 2;
                let got = read(image.at(x, y), &palette, span);
                assert!((got - value).abs() <= step(span, value), "{}", one.head);
            }
        }
        // the gap: between heads 1 and 3 of layer 1, without a colour of the palette
        let (before, after) = (placed.blocks[5].area, placed.blocks[6].area);
        for x in before.right..after.left {
            assert!(!palette.contains(&image.at(x, before.top + 2)), "{x}");
        }
        assert!(placed.texts.iter().any(|text| text.text.contains("pruned")));
    }
}

#[test]
fn the_same_bytes_at_any_number_of_threads() {
    let all = attention(4, 6, &words("the animal was too tired , 我 said"));
    let style = Style::default();
    let ranges = style.scale.resolve(&all);
    let draw = |threads: usize| -> Vec<Vec<u8>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let engine = TextEngine::with_fonts([]);
        pool.install(|| {
            let one = |one: &HeadWeights| {
                let view = View::head(&all, one.head, "m", &ranges).unwrap();
                let format =
                    if one.head.head.is_multiple_of(2) { Format::Png } else { Format::Svg };
                heatmap(&view, &style, format, &engine).unwrap()
            };
            all.heads.par_iter().map(one).collect()
        })
    };
    let single = draw(1);
    assert_eq!(single, draw(2));
    assert_eq!(single, draw(5));
}

/// S18: text is text, in labels, titles and notes.
#[test]
fn hostile_text_is_text_in_an_svg() {
    let hostile = [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(1)>",
        "\" onmouseover=\"x",
        "&lt;b&gt;",
        "]]>",
        "<!--",
        "a\u{0}b",
        "'&amp;",
        "\u{ffff}\u{202e}",
    ];
    let engine = TextEngine::with_fonts([]);
    for (i, text) in hostile.iter().enumerate() {
        let labels = vec![text.to_string(), format!("x{i}")];
        let mut view = view(&labels);
        view.title = format!("{text} model");
        view.notes = vec![format!("note {text}")];
        view.row_caption = text.to_string();
        view.legend = vec![text.to_string()];
        let placed = heatmap_layout(&view, &Style::default(), &engine).unwrap();
        let svg = String::from_utf8(placed.render(Format::Svg, &engine).unwrap()).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let name = node.tag_name().name();
            assert!(["svg", "title", "rect", "image", "text"].contains(&name), "{name}");
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
            }
        }
        let texts: Vec<&str> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "text")
            .filter_map(|node| node.text())
            .collect();
        let placed: Vec<&str> = placed.texts.iter().map(|text| text.text.as_str()).collect();
        assert_eq!(texts, placed);
        if *text == hostile[0] || *text == hostile[3] {
            assert!(texts.contains(text) || texts.iter().any(|t| t.contains('…')), "{texts:?}");
        }
    }
}

#[test]
fn arabic_in_an_svg_keeps_its_side() {
    let engine = TextEngine::with_fonts([]);
    let view = view(&["مرحبا".to_owned(), "hello".into()]);
    let svg = heatmap(&view, &Style::default(), Format::Svg, &engine).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let label = |text: &str| {
        let mut texts = document.descendants().filter(|n| n.tag_name().name() == "text");
        texts.find(|node| node.text() == Some(text)).unwrap()
    };
    // row labels end at the matrix: the end of a line from right to left is its start
    assert_eq!(label("hello").attribute("text-anchor"), Some("end"));
    assert_eq!(label("مرحبا").attribute("direction"), Some("rtl"));
    assert_eq!(label("مرحبا").attribute("text-anchor"), None);
    assert_eq!(label("مرحبا").attribute("x"), label("hello").attribute("x"));
}

#[test]
fn large_matrices_are_one_image_in_an_svg() {
    let engine = TextEngine::with_fonts([]);
    let view = view(&vec!["x".into(); 40]);
    let placed = heatmap_layout(&view, &Style::default(), &engine).unwrap();
    let svg = String::from_utf8(placed.render(Format::Svg, &engine).unwrap()).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    let image = document.descendants().find(|n| n.tag_name().name() == "image").unwrap();
    let data = image.attribute("href").unwrap().strip_prefix("data:image/png;base64,").unwrap();
    use base64::Engine as _;
    let file = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
    let inner = Image::decode(&file);
    let matrix = &placed.blocks[0];
    assert_eq!(inner.width as i32, matrix.area.right - matrix.area.left);
    let palette = Style::default().cmap.colours(false);
    let cell = matrix.cell().0;
    for ((row, column), &value) in view.values.indexed_iter() {
        let colour = inner.at(column as i32 * cell, row as i32 * cell);
        let got = read(colour, &palette, view.span);
        assert!((got - value).abs() <= view.span.high / 223.0);
    }
}

#[test]
fn resolution_scales_and_is_written() {
    let engine = TextEngine::with_fonts([]);
    let at = |dpi| {
        let style = Style { dpi, ..Style::default() };
        Image::decode(&heatmap(&view(&words("a b c")), &style, Format::Png, &engine).unwrap())
    };
    let (one, two) = (at(100), at(200));
    assert_eq!((one.dpi, two.dpi), (Some(100), Some(200)));
    assert!(two.width.abs_diff(2 * one.width) < 16, "{} {}", one.width, two.width);
    assert!(one.indexed && two.indexed, "256 colours do");
}

#[test]
fn pictures_beyond_the_limits_are_refused() {
    let engine = TextEngine::with_fonts([]);
    let count = MAX_SIDE + 1;
    let values = Array2::zeros((count, 1));
    let tall = View::new("tall", vec!["x".into(); count], vec!["y".into()], values).unwrap();
    let message = heatmap_layout(&tall, &Style::default(), &engine).unwrap_err().to_string();
    assert!(message.contains("tall") && message.contains("16384"), "{message}");
    let style = Style { dpi: 1200, ..Style::default() };
    assert!(heatmap_layout(&view(&vec!["x".into(); 300]), &style, &engine).is_err());

    let style = Style { dpi: 20, ..Style::default() };
    let message = heatmap_layout(&view(&words("a")), &style, &engine).unwrap_err().to_string();
    assert!(message.contains("--dpi"), "{message}");

    assert!(View::new("no", vec![], vec![], Array2::zeros((0, 0))).is_err());
    assert!(View::new("no", words("a b"), words("a"), Array2::zeros((1, 2))).is_err());
    let none = Attention::new(vec![], vec![], vec![], vec![]).unwrap();
    assert!(grid(&none, "t", &[], &Style::default(), Format::Png, &engine).is_err());
}

#[test]
fn what_is_not_a_number_is_shown_as_such() {
    let mut view = view(&words("a b c"));
    view.values[[1, 1]] = f32::NAN;
    view.values[[0, 1]] = f32::INFINITY;
    let engine = TextEngine::with_fonts([]);
    let style = Style { annotate: true, ..Style::default() };
    let placed = heatmap_layout(&view, &style, &engine).unwrap();
    let palette = style.cmap.colours(false);
    assert!(!palette.contains(&placed.blocks[0].colours[4]));
    assert_eq!(placed.blocks[0].colours[1], palette[LEVELS - 1]);
    assert!(placed.texts.iter().any(|text| text.text.contains("not a number")));
}

#[test]
fn weight_left_out_is_told_row_by_row() {
    let engine = TextEngine::with_fonts([]);
    let view = view(&words("a b c")).with_lost(vec![0.004, 0.97, 0.62]).unwrap();
    let placed = heatmap_layout(&view, &Style::default(), &engine).unwrap();
    for text in ["0%", "−97%", "−62%", "left out"] {
        assert!(placed.texts.iter().any(|placed| placed.text == text), "{text}");
    }
    let grey = |[r, g, b]: Rgb| r == g && g == b;
    let colours = &placed.blocks[0].colours;
    assert!(colours[3..6].iter().all(|&c| grey(c)));
    assert!(!colours[..3].iter().any(|&c| grey(c)) && !colours[6..].iter().any(|&c| grey(c)));
    check_texts(&placed, false);
    assert!(view.with_lost(vec![0.0]).is_err());
}

/// Nothing that a text can hold may panic or take long.
#[test]
fn any_text_is_drawn() {
    let engine = TextEngine::with_fonts([fixture("NotoSansDevanagari-subset.ttf")]);
    let pieces: Vec<char> = "aZ#…é我אبक्ि\u{301}\u{202e}\u{2067}\u{2029}\u{200d}\u{fe0f}\u{e0041}😀\u{0}\n\r\t \u{85}\u{ad}\u{3000}1٣"
        .chars()
        .collect();
    let mut state = 9_u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let labels: Vec<String> = (0..400)
        .map(|_| (0..random(24)).map(|_| pieces[random(pieces.len())]).collect())
        .chain(["\u{301}".repeat(5000), "W".repeat(100_000), "שלום ".repeat(3000)])
        .collect();
    for chunk in labels.chunks(31) {
        let placed = heatmap_layout(&view(chunk), &Style::default(), &engine).unwrap();
        assert!(placed.width < 2500, "{}", placed.width);
        placed.render(Format::Png, &engine).unwrap();
        let svg = String::from_utf8(placed.render(Format::Svg, &engine).unwrap()).unwrap();
        roxmltree::Document::parse(&svg).unwrap();
    }
}
