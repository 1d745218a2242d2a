import DecartProtocol
import GStreamerKit

/// A source that the user described, with the pad "src".
enum DescribedSource {
    static func bin(_ description: String) throws(GStreamerError) -> Bin {
        // clocksync paces a source that is not live, such as a file, whenever it is started. It also gives caps at the
        // end of the description a successor, which the parser needs, and it is a static end for elements whose pads
        // come later. For those, the parser must not ghost pads: it would take the sink pads that wait for a late pad.
        let name = "decart-paced"
        let bin = try Bin(
            description: "\(description) ! clocksync name=\(name) sync-to-first=true", ghostUnlinkedPads: false)
        guard let last = bin.child(named: name)?.staticPad("src") else {
            throw GStreamerError(.badDescription, "it must have exactly one unlinked source pad")
        }
        bin.add(try GhostPad(name: "src", target: last))
        for element in bin.allElements where element.factoryName == "rtspsrc" { splitLocation(element) }
        return bin
    }

    /// rtspsrc reports the progress of its connection with the location.
    private static func splitLocation(_ element: Element) {
        guard let url = element.string("location").flatMap({ try? RTSPURL($0) }), let credentials = url.credentials
        else { return }
        element.set("location", GValueBox(url.location.reveal()))
        element.set("user-id", GValueBox(credentials.user.reveal()))
        element.set("user-pw", GValueBox(credentials.password.reveal()))
    }
}
