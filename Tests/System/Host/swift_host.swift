// A Swift application with the dynamic Swift runtime that loads the plugin, which contains a static runtime of its own.
// Neither runtime may see the other's types, and the plugin's may not take over anything of the process.
//
//   swift_host PLUGIN.so ELEMENT...
//
// Prints "ok NAME" or "not ok NAME: why". GStreamer is loaded with dlopen, so that only Swift is linked.

import Dispatch
import Foundation

typealias Pointer = UnsafeMutableRawPointer

let global = UnsafeMutableRawPointer(bitPattern: 0)
guard let gstreamer = dlopen("libgstreamer-1.0.so.0", RTLD_NOW | RTLD_GLOBAL) else {
    print("not ok swift host: GStreamer is not installed")
    exit(1)
}

@MainActor func function<F>(_ name: String, as type: F.Type) -> F {
    guard let symbol = dlsym(gstreamer, name) ?? dlsym(global, name) else {
        print("not ok swift host: no \(name)")
        exit(1)
    }
    return unsafeBitCast(symbol, to: type)
}

let initialise = function("gst_init", as: (@convention(c) (Pointer?, Pointer?) -> Void).self)
let loadFile = function("gst_plugin_load_file", as: (@convention(c) (UnsafePointer<CChar>, Pointer?) -> Pointer?).self)
let make = function(
    "gst_element_factory_make",
    as: (@convention(c) (UnsafePointer<CChar>, UnsafePointer<CChar>?) -> Pointer?).self)
let setState = function("gst_element_set_state", as: (@convention(c) (Pointer, CInt) -> CInt).self)
let unref = function("gst_object_unref", as: (@convention(c) (Pointer) -> Void).self)

var failed = false

@MainActor func report(_ name: String, _ why: String?) {
    if let why {
        failed = true
        print("not ok swift host: \(name): \(why)")
    } else {
        print("ok swift host: \(name)")
    }
    fflush(nil)
}

protocol Animal { func make() -> String }
struct Dog: Animal { func make() -> String { "woof" } }
final class Box<Value> {
    let value: Value
    init(_ value: Value) { self.value = value }
}
struct Oops: Error {}

/// Exercises features that depend on the runtime's tables: casts, conformances, generics, errors, tasks, queues, JSON.
func ownRuntimeWorks() async -> String? {
    let something: Any = Box([Dog() as any Animal])
    guard let box = something as? Box<[any Animal]>, box.value.first?.make() == "woof" else { return "a cast failed" }
    guard (something as? any Animal) == nil else { return "a cast succeeded that must not" }
    do { throw Oops() } catch { guard error is Oops else { return "an error lost its type" } }
    let sum = await withTaskGroup(of: Int.self) { group in
        for value in 1...100 { group.addTask { value } }
        return await group.reduce(0, +)
    }
    guard sum == 5050 else { return "tasks gave \(sum)" }
    let fromQueue = await withCheckedContinuation { done in
        DispatchQueue.global().async { done.resume(returning: 42) }
    }
    guard fromQueue == 42 else { return "a queue gave \(fromQueue)" }
    guard let json = try? JSONSerialization.jsonObject(with: Data("{\"a\": [1, 2]}".utf8)) as? [String: [Int]],
        json["a"] == [1, 2]
    else { return "JSON failed" }
    return nil
}

let arguments = CommandLine.arguments
guard arguments.count >= 2 else {
    print("not ok swift host: usage: swift_host PLUGIN.so ELEMENT...")
    exit(2)
}
report("the runtime works before loading", await ownRuntimeWorks())
initialise(nil, nil)
let plugin = loadFile(arguments[1], nil)
report("the plugin loads", plugin == nil ? "gst_plugin_load_file gave NULL" : nil)
report("the runtime works after loading", await ownRuntimeWorks())
for name in arguments.dropFirst(2) {
    guard let element = make(name, nil) else {
        report("\(name) can be created", "gst_element_factory_make gave NULL")
        continue
    }
    report("\(name) can be created", nil)
    // The change to PAUSED (3) may fail; the change to NULL (1) must succeed (1).
    _ = setState(element, 3)
    report("\(name) goes back to NULL", setState(element, 1) == 1 ? nil : "it does not")
    unref(element)
}
report("the runtime works after using the elements", await ownRuntimeWorks())
exit(failed ? 1 : 0)
