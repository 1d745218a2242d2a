import DecartProtocol

extension LatencyMarker {
    @discardableResult
    package static func stamp(_ number: UInt16, onto plane: Plane) -> Bool {
        plane.luma.map { stamp(number, onto: $0) } ?? false
    }

    package static func read(from plane: Plane) -> UInt16? { plane.luma.flatMap(find)?.number }
}

extension Plane {
    fileprivate var luma: LatencyMarker.Luma? {
        LatencyMarker.Luma(base: base, stride: stride, width: width, height: height)
    }
}
