import NIOCore
import NIOSSL

enum ServerTLS {
    /// - Parameter maximum: The newest TLS version to accept; nil: any version from 1.2.
    static func context(
        for files: StandInConfiguration.TLSFiles, maximum: TLSVersion? = nil
    ) throws(StandInError) -> NIOSSLContext {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(files.certificateChain)
            let key = try NIOSSLPrivateKey(file: files.privateKey, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = maximum == nil ? .tlsv12 : .tlsv1
            configuration.maximumTLSVersion = maximum
            configuration.shutdownTimeout = .milliseconds(500)
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw StandInError("cannot use the certificate or its key: \(error)")
        }
    }
}
