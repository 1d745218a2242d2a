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
        guard let paced = bin.child(named: name), let last = paced.staticPad("src") else {
            throw GStreamerError(.badDescription, "it must have exactly one unlinked source pad")
        }
        // Its clock is the system's, and would be lost with the source: an application then has to restart the pipeline.
        paced.provideNoClock()
        if !bin.allElements.contains(where: \.providesClock) { bin.provideNoClock() }
        bin.add(try GhostPad(name: "src", target: last))
        for element in bin.allElements where element.factoryName == "rtspsrc" {
            guard let url = element.string("location").flatMap({ try? RTSPURL($0) }) else { continue }
            let own = element.string("user-id").flatMap { user in
                element.string("user-pw").map { BasicCredentials(user: Secret(user), password: Secret($0)) }
            }
            // Those of the URL come first, as in the element.
            guard let credentials = url.credentials ?? own else { continue }
            _ = RTSPRequests(of: element, to: url, credentials)
        }
        return bin
    }
}
