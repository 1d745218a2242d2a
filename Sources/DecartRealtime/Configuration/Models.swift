import DecartProtocol

/// A realtime model by name. A name that this library does not know is written as a string:
/// `Models.realtime("lucy-restyle-2")`.
public struct RealtimeModel: Sendable, Hashable, RawRepresentable, ExpressibleByStringLiteral {
    /// The name that the service knows.
    public let rawValue: String

    /// A model by the name that the service knows.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// A model by the name that the service knows.
    public init(stringLiteral value: String) { rawValue = value }

    /// The model `lucy-restyle-2`.
    public static let lucyRestyle2: RealtimeModel = "lucy-restyle-2"
    /// The model `lucy-restyle-latest`.
    public static let lucyRestyleLatest: RealtimeModel = "lucy-restyle-latest"
    /// The model `lucy-2.1`.
    public static let lucy2_1: RealtimeModel = "lucy-2.1"
    /// The model `lucy-2.5`.
    public static let lucy2_5: RealtimeModel = "lucy-2.5"
    /// The model `lucy-2.6`.
    public static let lucy2_6: RealtimeModel = "lucy-2.6"
    /// The model `lucy-latest`.
    public static let lucyLatest: RealtimeModel = "lucy-latest"
    /// The model `lucy-vton-3.5`.
    public static let lucyVton3_5: RealtimeModel = "lucy-vton-3.5"
    /// The model `lucy-vton-3.6`.
    public static let lucyVton3_6: RealtimeModel = "lucy-vton-3.6"
    /// The model `lucy-vton-latest`.
    public static let lucyVtonLatest: RealtimeModel = "lucy-vton-latest"

    /// A retired model, which the service may refuse.
    public static let lucyVton2: RealtimeModel = "lucy-vton-2"
    /// A retired model, which the service may refuse.
    public static let lucyVton3: RealtimeModel = "lucy-vton-3"
    /// A retired model, which the service may refuse.
    public static let lucy_v2v_14b_rt: RealtimeModel = "lucy_v2v_14b_rt"
    /// A retired model, which the service may refuse.
    public static let lucy_2_rt: RealtimeModel = "lucy_2_rt"
    /// A retired model, which the service may refuse.
    public static let mirage_v2: RealtimeModel = "mirage_v2"
}

/// The frames that a model takes and returns.
public struct ModelDefinition: Sendable, Equatable {
    /// The name by which the service knows the model.
    public let name: String
    /// Frames per second; 0 for an unknown model.
    public let fps: Int
    /// Pixels in landscape; 0 for an unknown model.
    public let width, height: Int

    /// A model that `Models` does not know.
    public init(name: String, fps: Int, width: Int, height: Int) {
        (self.name, self.fps, self.width, self.height) = (name, fps, width, height)
    }

    /// The element knows the model's frames.
    var isKnown: Bool { (try? DecartModel(named: name))?.format(for: .livekit) != nil }
}

/// The models of the service.
public enum Models {
    /// The definition of a realtime model. Of an unknown one, `createRealtimeManager` throws
    /// `DecartError.modelNotFound`.
    public static func realtime(_ model: RealtimeModel) -> ModelDefinition {
        let format = (try? DecartModel(named: model.rawValue))?.format(for: .livekit)
        return ModelDefinition(
            name: model.rawValue, fps: format?.framerate ?? 0, width: format?.width ?? 0, height: format?.height ?? 0)
    }
}
