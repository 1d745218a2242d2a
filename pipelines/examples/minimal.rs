// minimal.py in Rust, with gstreamer = "0.23" in Cargo.toml (Debian: librust-gstreamer-dev).
use gst::prelude::*;
use gstreamer as gst;
use std::{error::Error, io, thread};

const PIPELINE: &str =
    "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink";

fn main() -> Result<(), Box<dyn Error>> {
    gst::init()?;
    let text = std::env::args().nth(1).unwrap_or_else(|| PIPELINE.into());
    let pipeline = gst::parse::launch(&text)?.downcast::<gst::Pipeline>().map_err(|_| "not a pipeline")?;
    let decart = pipeline.by_name("decart").ok_or("no element is named decart")?;
    let bus = pipeline.bus().ok_or("no bus")?;
    pipeline.set_state(gst::State::Playing)?;
    let input = pipeline.clone();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            decart.set_property("prompt", line);
        }
        input.send_event(gst::event::Eos::new());
    });
    for message in bus.iter_timed(gst::ClockTime::NONE) {
        match message.view() {
            gst::MessageView::Eos(_) => break,
            gst::MessageView::Error(error) => {
                println!("{}", error.error());
                break;
            }
            gst::MessageView::Element(element) => match element.structure() {
                Some(fields) if fields.name() == "decart-prompt-result" => {
                    println!("{}", fields.get::<Option<String>>("error")?.unwrap_or_else(|| "accepted".into()))
                }
                _ => (),
            },
            _ => (),
        }
    }
    Ok(pipeline.set_state(gst::State::Null).map(|_| ())?)
}
