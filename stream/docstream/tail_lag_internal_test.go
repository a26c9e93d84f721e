package docstream

import (
	"testing"
	"time"
)

// A reader requests all that a stream has while it has fetched little. It also does so up to the block that is being
// written, and once the stream has stopped growing. Otherwise it requests portions.
func TestTailLag_RequestSizes(t *testing.T) {
	const room, size = 6 << 20, 1 << 10
	began := time.Now()
	many := func(bytes int64) uint64 { return uint64(bytes / size) }
	for _, x := range []struct {
		name  string
		taken int64
		left  uint64
		since time.Duration // since the stream has grown
		bytes int64
		wait  time.Duration
	}{
		{"the beginning", 1 << 20, 0, 0, maxTailRequest, 0},
		{"far behind", unpacedBytes, many(100 << 20), 0, maxTailRequest, 0},
		{"a little more than a block behind", unpacedBytes, many(tailDistance + maxTailRequest/2), 0, maxTailRequest / 2, 0},
		{"within the block", unpacedBytes, many(tailDistance), 0, minRequestBytes, tailPause},
		{"at the end", unpacedBytes, 0, tailQuietTime, minRequestBytes, tailPause},
		{"at the end of one that is stopped", unpacedBytes, 0, tailQuietTime + 1, minRequestBytes, 0},
		{"near the end of one that is stopped", unpacedBytes, many(maxTailRequest / 2), tailQuietTime + 1,
			maxTailRequest / 2, 0},
	} {
		p := tailLag{last: 7, grewAt: began}
		for p.total < x.taken {
			p.addFetched(size)
		}
		if some, _ := p.nextRequest(minRequestBytes, x.left, 7, began); some > minRequestBytes {
			t.Errorf("%s: %d bytes, more than there is room for", x.name, some)
		}
		if bytes, wait := p.nextRequest(room, x.left, 7, began.Add(x.since)); bytes != x.bytes || wait != x.wait {
			t.Errorf("%s: %d bytes behind %v, want %d behind %v", x.name, bytes, wait, x.bytes, x.wait)
		}
	}
}

// A stream that grows fast is followed a block behind, whatever its earlier documents were like. A stream that grows
// slowly is followed to its end.
func TestTailLag_FastStreamIsFollowedABlockLater(t *testing.T) {
	const room, size = 6 << 20, 4 << 10
	for _, x := range []struct{ rate, least, most int64 }{ // bytes per second; bytes behind the end after three seconds
		{60 << 20, tailDistance - minRequestBytes, tailDistance + 2<<20},
		{30 << 20, tailDistance - minRequestBytes, tailDistance + 2<<20},
		{5 << 20, 0, minRequestBytes},
	} {
		var p tailLag
		for p.total < unpacedBytes {
			p.addFetched(64 << 10)
		}
		began, at, taken := time.Now(), time.Duration(0), int64(0)
		grown := func() int64 { return int64(at.Seconds()*float64(x.rate)) / size }
		for at < 3*time.Second {
			last := grown()
			bytes, wait := p.nextRequest(room, uint64(last-taken), uint64(last), began.Add(at))
			at += wait + time.Millisecond
			for ; bytes > 0; bytes -= size { // arrives immediately, or when it exists
				for taken == grown() {
					at += time.Millisecond
				}
				taken++
				p.addFetched(size)
			}
		}
		if behind := (grown() - taken) * size; behind < x.least || behind > x.most {
			t.Errorf("%d bytes a second: %d behind, want %d to %d", x.rate, behind, x.least, x.most)
		}
	}
}
