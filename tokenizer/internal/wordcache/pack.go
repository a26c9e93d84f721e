package wordcache

// packPlain is pack in plain Go: the specification of the kernel.
func packPlain(s []byte, i int, ends []int32, keys []lineKey, places []uint32) {
	for k, end := range ends {
		keys[k], places[k] = lineKeyOf((*[16]byte)(s[i:]), int(end)-i)
		i = int(end)
	}
}
