package session

import (
	"math"
	"math/bits"
	"time"
)

// waitHistogram are the waits of the last minute. It has 6.5 KiB whatever their number, and adding a wait does not
// allocate. Quantiles are accurate to an eighth.
type waitHistogram struct{ slots [waitSlots]waitSlot }

// waitSlot counts the waits that ended within five seconds.
type waitSlot struct {
	number int64 // number of the five-second slot, from slotOf
	bins   [waitBins]uint32
}

const (
	waitSlotLength = 5 * time.Second
	waitSlots      = 13 // those of a minute, and the current one
	waitBins       = 124
	maxWaitMicros  = math.MaxUint32 // microseconds of the last bin: 71 minutes
)

// slotOrigin is the origin of slot numbers, on the monotonic clock.
var slotOrigin = time.Now()

func slotOf(now time.Time, length time.Duration) int64 { return int64(now.Sub(slotOrigin) / length) }

// binOf returns the bin of a wait: one bin per microsecond up to four, then four per doubling.
func binOf(wait time.Duration) int {
	us := min(uint64(max(wait.Microseconds(), 0)), maxWaitMicros)
	if us < 4 {
		return int(us)
	}
	power := bits.Len64(us) - 1
	return 4*(power-1) + int(us>>(power-2))&3
}

// binMiddle returns the middle of a bin.
func binMiddle(bin int) time.Duration {
	if bin < 4 {
		return time.Duration(bin) * time.Microsecond
	}
	shift := bin/4 - 1
	return time.Duration(4+bin%4)<<shift*time.Microsecond + time.Duration(1)<<shift*time.Microsecond/2
}

func (w *waitHistogram) add(now time.Time, wait time.Duration) {
	n := slotOf(now, waitSlotLength)
	s := &w.slots[(n%waitSlots+waitSlots)%waitSlots]
	if s.number != n {
		*s = waitSlot{number: n}
	}
	s.bins[binOf(wait)]++
}

// quantiles returns quantiles of the last minute's waits and of a present wait, zero for none. It includes the
// present wait because a reader that has waited for long has received no step in that time.
func (w *waitHistogram) quantiles(now time.Time, goesOn time.Duration, of ...float64) []time.Duration {
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
				out[i] = binMiddle(b)
				break
			}
		}
	}
	return out
}

// byteRate are the bytes of the last ten seconds.
type byteRate struct {
	seconds [byteSlots]struct {
		number int64 // number of the one-second slot
		bytes  int64
	}
}

const byteSlots = 11 // ten seconds, and the current one

func (r *byteRate) add(now time.Time, bytes int) {
	n := slotOf(now, time.Second)
	s := &r.seconds[(n%byteSlots+byteSlots)%byteSlots]
	if s.number != n {
		s.number, s.bytes = n, 0
	}
	s.bytes += int64(bytes)
}

// rate returns the bytes per second of a stream that started at since.
func (r *byteRate) rate(now, since time.Time) float64 {
	oldest, bytes := slotOf(now, time.Second)-byteSlots+1, int64(0)
	for _, s := range r.seconds {
		if s.number >= oldest {
			bytes += s.bytes
		}
	}
	covered := now.Sub(slotOrigin) - time.Duration(oldest)*time.Second
	return float64(bytes) / min(covered, max(now.Sub(since), time.Second)).Seconds()
}
