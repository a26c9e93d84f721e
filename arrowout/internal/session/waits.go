package session

import (
	"math"
	"math/bits"
	"time"
)

// recentWaits are the waits of the last minute: 6.5 KiB whatever their number, and nothing is allocated for one. Their
// quantiles are off by an eighth at the most.
type recentWaits struct{ slots [waitSlots]waitSlot }

// waitSlot counts the waits that ended within five seconds.
type waitSlot struct {
	number int64 // of the five seconds, by slotOf
	bins   [waitBins]uint32
}

const (
	waitSlotLength = 5 * time.Second
	waitSlots      = 13 // those of a minute, and the one that has begun
	waitBins       = 124
	waitLongest    = math.MaxUint32 // microseconds of the last bin: 71 minutes
)

// slotsBegan is when slots are counted from: by a clock that nobody sets.
var slotsBegan = time.Now()

func slotOf(now time.Time, length time.Duration) int64 { return int64(now.Sub(slotsBegan) / length) }

// binOf is the bin of a wait: one for each microsecond up to four, then four for each doubling.
func binOf(wait time.Duration) int {
	us := min(uint64(max(wait.Microseconds(), 0)), waitLongest)
	if us < 4 {
		return int(us)
	}
	power := bits.Len64(us) - 1
	return 4*(power-1) + int(us>>(power-2))&3
}

// midOf is the middle of a bin.
func midOf(bin int) time.Duration {
	if bin < 4 {
		return time.Duration(bin) * time.Microsecond
	}
	shift := bin/4 - 1
	return time.Duration(4+bin%4)<<shift*time.Microsecond + time.Duration(1)<<shift*time.Microsecond/2
}

func (w *recentWaits) add(now time.Time, wait time.Duration) {
	n := slotOf(now, waitSlotLength)
	s := &w.slots[(n%waitSlots+waitSlots)%waitSlots]
	if s.number != n {
		*s = waitSlot{number: n}
	}
	s.bins[binOf(wait)]++
}

// quantiles are those of the last minute's waits and of one that goes on, zero for none: a reader that has waited for
// long has had no step in that time.
func (w *recentWaits) quantiles(now time.Time, goesOn time.Duration, of ...float64) []time.Duration {
	var bins [waitBins]uint64
	total, oldest := uint64(0), slotOf(now, waitSlotLength)-waitSlots
	for i := range w.slots {
		if w.slots[i].number <= oldest {
			continue
		}
		for b, n := range w.slots[i].bins {
			bins[b] += uint64(n)
			total += uint64(n)
		}
	}
	if goesOn > 0 {
		bins[binOf(goesOn)]++
		total++
	}
	out := make([]time.Duration, len(of))
	for i, q := range of {
		if total == 0 {
			break
		}
		rank, seen := max(uint64(math.Ceil(q*float64(total))), 1), uint64(0)
		for b, n := range bins {
			if seen += n; seen >= rank {
				out[i] = midOf(b)
				break
			}
		}
	}
	return out
}

// recentBytes are the bytes of the last ten seconds.
type recentBytes struct {
	seconds [byteSlots]struct {
		number int64 // of the second
		bytes  int64
	}
}

const byteSlots = 11 // ten seconds, and the one that has begun

func (r *recentBytes) add(now time.Time, bytes int) {
	n := slotOf(now, time.Second)
	s := &r.seconds[(n%byteSlots+byteSlots)%byteSlots]
	if s.number != n {
		s.number, s.bytes = n, 0
	}
	s.bytes += int64(bytes)
}

// rate is a second's bytes, of a stream that began at since.
func (r *recentBytes) rate(now, since time.Time) float64 {
	oldest, bytes := slotOf(now, time.Second)-byteSlots+1, int64(0)
	for _, s := range r.seconds {
		if s.number >= oldest {
			bytes += s.bytes
		}
	}
	covered := now.Sub(slotsBegan) - time.Duration(oldest)*time.Second
	return float64(bytes) / min(covered, max(now.Sub(since), time.Second)).Seconds()
}
