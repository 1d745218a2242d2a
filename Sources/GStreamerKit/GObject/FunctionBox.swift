internal import CGStreamer

/// A Swift closure as the data of a C function, which holds a reference until it calls `releaseBox`.
final class FunctionBox<F> {
    let function: F
    init(_ function: F) { self.function = function }
}

func retained(_ object: AnyObject) -> UnsafeMutableRawPointer { Unmanaged.passRetained(object).toOpaque() }

let releaseBox: GDestroyNotify = { data in
    if let data { Unmanaged<AnyObject>.fromOpaque(data).release() }
}
