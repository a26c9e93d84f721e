package wordcache

// emitPlain is emit in plain Go: the specification of the kernel.
func emitPlain(t []line, dst []int32, places []uint32) (words, n int) {
	for k, p := range places {
		ids := t[p/lineBytes].ids[p/8%4:]
		count := idTriple(ids[0]).count()
		if count == elsewhere {
			return k, n
		}
		for j := 0; j == 0 || idsEach*j < count; j++ {
			idTriple(ids[j]).writeTo((*[idsEach]int32)(dst[n+idsEach*j:]))
		}
		n += count
	}
	return len(places), n
}
