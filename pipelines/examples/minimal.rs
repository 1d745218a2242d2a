// minimal.py in Rust, with gstreamer = "0.23" in Cargo.toml (Debian: librust-gstreamer-dev).
use gst::prelude::*;
use gstreamer as gst;
use std::{error::Error, io, process, thread};

const PIPELINE: &str =
    "videotestsrc is-live=true ! decarttransform name=decart prompt=Lego ! videoconvert ! autovideosink";

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    process::exit(1)
}

fn main() {
    run().unwrap_or_else(|error| fail(&error.to_string()))
}

fn run() -> Result<(), Box<dyn Error>> {
    gst::init()?;
    let text = std::env::args().nth(1).unwrap_or_else(|| PIPELINE.into());
    if text == "--help" {
        return Ok(println!("minimal [PIPELINE]"));
    }
    if gst::ElementFactory::find("decarttransform").is_none() {
        fail("no decarttransform: install gstreamer1.0-decart, or set GST_PLUGIN_PATH");
    }
    let pipeline = gst::parse::launch(&text)?.downcast::<gst::Pipeline>().map_err(|_| "not a pipeline")?;
    let decart = pipeline.by_name("decart").filter(|it| it.has_property("prompt"));
    let decart = decart.ok_or("no decarttransform is named decart: write name=decart")?;
    let bus = pipeline.bus().ok_or("no bus")?;
    // A failure is an ERROR on the bus too.
    let _ = pipeline.set_state(gst::State::Playing);
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
                pipeline.set_state(gst::State::Null)?;
                fail(&error.error().to_string());
            }
            gst::MessageView::Warning(warning) => eprintln!("{}", warning.error()),
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
