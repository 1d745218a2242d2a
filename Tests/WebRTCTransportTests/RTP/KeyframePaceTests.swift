import RTP
import Testing
import WebRTCTransport

/// Requests on a virtual clock: each answer is followed as the session follows it.
struct KeyframePaceTests {
    /// The times of keyframes, ms, for requests at these times, ms.
    private func keyframes(of pace: inout KeyframePace, ssrc: UInt32 = 1, requests: [Int]) -> [Int] {
        var (made, due): ([Int], Int?) = ([], nil)
        for time in 0...(requests.last ?? 0) + 5000 {
            let hasWaited = due == time
            guard hasWaited || requests.contains(time) else { continue }
            switch pace.request(ssrc: ssrc, hasWaited: hasWaited, now: .milliseconds(time)) {
            case .now: made.append(time)
            case .after(let wait): due = time + Int(wait / .milliseconds(1))
            case .waits: break
            }
        }
        return made
    }

    @Test func requestsWithinARoundTripAreOneKeyframe() {
        var pace = KeyframePace()
        pace.pace(roundTrip: .milliseconds(800))
        // The request that repeats every 100 ms until a keyframe arrives.
        #expect(keyframes(of: &pace, requests: Array(stride(from: 0, through: 1900, by: 100))) == [0, 800, 1600, 2400])
    }

    /// As a server that throttles the requests of its subscribers, on however short a path.
    @Test func aShortestIntervalHoldsOnAShortPath() {
        var pace = KeyframePace(shortest: .milliseconds(500))
        #expect(keyframes(of: &pace, requests: [0, 100]) == [0, 500])
        pace.pace(roundTrip: .milliseconds(1))
        #expect(keyframes(of: &pace, ssrc: 2, requests: [0, 499, 1100]) == [0, 500, 1100])
        pace.pace(roundTrip: .milliseconds(800))
        #expect(keyframes(of: &pace, ssrc: 3, requests: [0, 499]) == [0, 800])
    }

    @Test func aLateRequestIsAnsweredAtOnce() {
        var pace = KeyframePace()
        pace.pace(roundTrip: .milliseconds(50))
        #expect(keyframes(of: &pace, requests: [0, 50, 300, 310, 320]) == [0, 50, 300, 350])
    }

    @Test func layersHaveTheirOwnPace() {
        var pace = KeyframePace()
        pace.pace(roundTrip: .seconds(1))
        #expect(keyframes(of: &pace, requests: [0]) == [0] && keyframes(of: &pace, ssrc: 2, requests: [10]) == [10])
    }

    @Test func anUnknownOrLongRoundTripDoesNotHoldBack() {
        var pace = KeyframePace()
        #expect(keyframes(of: &pace, requests: [0, 1, 2]) == [0, 1, 2])
        pace = KeyframePace()
        pace.pace(roundTrip: .seconds(3600))
        #expect(keyframes(of: &pace, requests: [0, 1]) == [0, 2000])
    }
}
