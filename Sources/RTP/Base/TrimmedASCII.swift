extension Substring {
    package var trimmedASCII: Substring {
        var slice = self
        while let first = slice.first, first.isWhitespace { slice.removeFirst() }
        while let last = slice.last, last.isWhitespace { slice.removeLast() }
        return slice
    }
}
