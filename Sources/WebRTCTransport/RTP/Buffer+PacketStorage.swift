import RTP
package import GStreamerKit

extension Buffer: PacketStorage {
    package func lendBytes(to body: (UnsafeRawBufferPointer) -> Void) { _ = withBytes(body) }
}
