import DecartProtocol
import Network

/// The page's request to watch one side of a session: `/page/watch?session=ID&side=before|after`.
struct WatchAdmission {
    enum Side: String { case before, after }

    static let path = "/page/watch"
    /// Per session: four pages.
    private static let maximumCount = 8
    let viewers: Viewers
    let side: Side

    init?(_ head: HTTPRequestHead, _ access: PageAccess, _ board: ViewerBoard) {
        guard head.target.utf8.count <= 1024, head.path == Self.path,
            access.refusal(ofUpgrade: head) == nil
        else { return nil }
        let items = PercentEncoding.firstQueryItems(ofTarget: head.target)
        guard let viewers = items["session"].flatMap(board.viewers), viewers.pageCount < Self.maximumCount,
            let side = items["side"].flatMap(Side.init(rawValue:))
        else { return nil }
        self.viewers = viewers
        self.side = side
    }

    /// The viewers whose frames the page gets.
    var source: Viewers { side == .after ? viewers : viewers.input ?? viewers }
}
