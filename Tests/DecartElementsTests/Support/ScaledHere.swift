import MediaPipeline

/// True where the element scales RGB itself.
enum ScaledHere { static let isOn = FrameScaler.isFast }
