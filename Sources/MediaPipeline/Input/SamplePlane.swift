// Planes in memory that libyuv may read and write as a whole.
internal import CYUV
import GStreamerKit

/// A plane, or a part of one, inside of its memory.
struct SamplePlane {
    let base: UnsafeMutablePointer<UInt8>
    /// Bytes from one row to the next.
    let stride: CInt
    /// Pixels, or samples of subsampled chroma.
    let width: CInt
    let height: CInt

    init(_ base: UnsafeMutablePointer<UInt8>, stride: CInt, width: CInt, height: CInt) {
        (self.base, self.stride, self.width, self.height) = (base, stride, width, height)
    }

    /// nil if the frame has no such plane or less memory than its rows need.
    /// - Parameter area: lies inside of the frame; its first column and row are even.
    init?(_ frame: VideoFrameRef, _ index: Int, _ video: VideoInfo, _ area: FramePlacement.Area) {
        // The plane has been checked to have the memory of its rows.
        guard let plane = frame.plane(index), plane.stride >= plane.layout.rowBytes,
            let stride = CInt(exactly: plane.stride)
        else { return nil }
        let across = plane.layout.columns < video.width ? 2 : 1
        let down = plane.layout.rows < video.height ? 2 : 1
        base = plane.base + area.y / down * plane.stride + area.x / across * plane.layout.unit.pixelBytes
        self.stride = stride
        width = CInt((area.width + across - 1) / across)
        height = CInt((area.height + down - 1) / down)
    }

    func hasSize(of other: SamplePlane) -> Bool { (width, height) == (other.width, other.height) }

    /// Samples of 8 bits.
    /// - Parameter filter: libyuv takes the box filter only if both sides shrink to less than half.
    func scale(to target: SamplePlane, _ filter: FilterMode = kFilterBox) {
        ScalePlane(base, stride, width, height, target.base, target.stride, target.width, target.height, filter)
    }

    /// Rows of 8-bit samples.
    func rows(_ first: Int, _ count: Int) -> SamplePlane {
        SamplePlane(base + first * Int(stride), stride: stride, width: width, height: CInt(count))
    }
}

/// Planes of YUV, subsampled in any way.
struct SampledFrame {
    let y: SamplePlane
    let u: SamplePlane
    let v: SamplePlane

    init(y: SamplePlane, u: SamplePlane, v: SamplePlane) { (self.y, self.u, self.v) = (y, u, v) }

    /// A part of a frame of three planes.
    init?(_ frame: VideoFrameRef, _ video: VideoInfo, _ area: FramePlacement.Area) {
        guard let y = SamplePlane(frame, 0, video, area), let u = SamplePlane(frame, 1, video, area),
            let v = SamplePlane(frame, 2, video, area)
        else { return nil }
        self.init(y: y, u: u, v: v)
    }

    var swapped: SampledFrame { SampledFrame(y: y, u: v, v: u) }

    func blacken() {
        SetPlane(y.base, y.stride, y.width, y.height, 16)
        SetPlane(u.base, u.stride, u.width, u.height, 128)
        SetPlane(v.base, v.stride, v.width, v.height, 128)
    }

    /// Chroma is subsampled further after it has been scaled, or the filter would skip rows.
    /// - Parameter target: I420.
    func scale(to target: SampledFrame, _ memory: inout ScratchPlanes, _ filter: FilterMode = kFilterBox) {
        y.scale(to: target.y, filter)
        for (chroma, to) in [(u, target.u), (v, target.v)] {
            let (across, down): (CInt, CInt) = (chroma.width < y.width ? 1 : 2, chroma.height < y.height ? 1 : 2)
            let scaled = across * down == 1 ? to : memory.plane(across * to.width, down * to.height)
            chroma.scale(to: scaled, filter)
            if across * down > 1 { scaled.scale(to: to) }
        }
    }

    /// Converts packed pixels of the same size.
    func fill(from pixels: SamplePlane, _ convert: PixelFormat.Conversion) -> Bool {
        convert(
            pixels.base, pixels.stride, y.base, y.stride, u.base, u.stride, v.base, v.stride, y.width, y.height) == 0
    }

    /// Parts of I420 with an even number of rows, and the number of rows above each.
    func bands(of rows: Int) -> [(row: Int, band: SampledFrame)] {
        stride(from: 0, to: Int(y.height), by: rows).map { row in
            let count = min(rows, Int(y.height) - row)
            return (
                row, SampledFrame(y: y.rows(row, count), u: u.rows(row / 2, count / 2), v: v.rows(row / 2, count / 2))
            )
        }
    }
}

/// Planes one behind the other in memory that is large enough.
struct ScratchPlanes {
    private var next: UnsafeMutablePointer<UInt8>

    init(_ memory: UnsafeMutableRawPointer) { next = memory.assumingMemoryBound(to: UInt8.self) }

    mutating func plane(_ width: CInt, _ height: CInt, bytes: CInt = 1) -> SamplePlane {
        defer { next += Int(bytes * width) * Int(height) }
        return SamplePlane(next, stride: bytes * width, width: width, height: height)
    }

    /// - Parameter chroma: width of the planes of 4:4:4 or 4:2:2.
    mutating func frame(_ width: CInt, chroma: CInt, _ height: CInt) -> SampledFrame {
        SampledFrame(y: plane(width, height), u: plane(chroma, height), v: plane(chroma, height))
    }
}

extension PlaneLayout.Unit {
    fileprivate var pixelBytes: Int {
        switch self {
        case .bytes(let size): size
        case .pairsLumaFirst, .pairsChromaFirst: 2
        }
    }
}
