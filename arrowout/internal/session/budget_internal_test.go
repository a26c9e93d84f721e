package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"

	"loaderd/internal/logsample"
	"loaderd/loader/fault"
)

const kib = 1 << 10

// stream is a stream of a test, with the batch that it waits for or holds.
type stream struct {
	*account
	taken   chan *Charge
	cancel  context.CancelFunc
	refused chan error
	ended   error
	sent    bool
}

// connection is a connection whose end is reported.
type connection struct{ closed, isCut atomic.Bool }

func (c *connection) Closed() bool         { return c.closed.Load() }
func (c *connection) Cut() (first bool)    { return !c.isCut.Swap(true) }
func (c *connection) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// alone returns a budget without a registry.
func alone(size, perStream int64) *budget { return newBudget(&sync.Mutex{}, size, perStream) }

func (b *budget) opened(who, address string, from Connection, end func(error)) (*account, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openAccount(who, address, from, end)
}

func (b *budget) stream(who string, from Connection) *stream {
	s := &stream{taken: make(chan *Charge, 1), refused: make(chan error, 1)}
	s.account, _ = b.opened(who, who, from, func(err error) { s.ended = err })
	return s
}

func (b *budget) streamOf(who, address string) *stream {
	s := &stream{taken: make(chan *Charge, 1), refused: make(chan error, 1)}
	s.account, _ = b.opened(who, address, nil, func(err error) { s.ended = err })
	return s
}

// closes closes the stream as a registry does.
func (s *stream) closes() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	s.close()
}

// asks requests bytes for a stream, and returns whether they are granted immediately.
func (s *stream) asks(t *testing.T, bytes int64) bool {
	t.Helper()
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	t.Cleanup(s.cancel)
	go func() {
		c, err := s.acquire(ctx, bytes)
		if err != nil {
			s.refused <- err
			return
		}
		s.taken <- c
	}()
	for s.waits() == nil && len(s.taken) == 0 && len(s.refused) == 0 {
		runtime.Gosched() // until the goroutine above waits for the batch
	}
	return s.waits() == nil
}

func (s *stream) waits() *memoryRequest {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.pending
}

// sends passes what a stream holds to gRPC, as two buffers.
func (c *Charge) sends(bytes int64) mem.BufferSlice {
	header, body := make([]byte, bytes/4), make([]byte, bytes/2)
	c.HandOver(2, nil)
	return mem.BufferSlice{mem.NewBuffer(&header, c), mem.NewBuffer(&body, c)}
}

func holds(t *testing.T, b *budget, want int64) {
	t.Helper()
	if got := b.heldBytes(); got != want {
		t.Errorf("%d bytes are held, want %d", got, want)
	}
}

// One connection, and one identity, leave room for other connections and identities.
func TestBudget_BoundsConnectionAndIdentity(t *testing.T) {
	b := alone(1200*kib, 0) // 750 of which are for streams that have not proved that they read
	hold := func(who, from string) (had int) {
		for range 20 {
			if b.streamOf(who, from).asks(t, 50*kib) {
				had++
			}
		}
		return had
	}
	if n := hold("hog", "1"); n != 9 { // 450: at most three times the 300 left free, minus what the identity holds
		t.Errorf("one connection has %d batches", n)
	}
	if n := hold("hog", "2"); n != 1 {
		t.Errorf("another connection of the identity has %d batches", n)
	}
	if n := hold("hog", "3") + hold("hog", "4") + hold("hog", "5"); n != 3 { // the first batch of each
		t.Errorf("further connections of the identity have %d batches", n)
	}
	if n := hold("other", "6"); n < 1 {
		t.Errorf("another identity has %d batches", n)
	}
}

// A stream that has a batch waits for the next one while other streams could get their first.
func TestBudget_FirstBatchesHavePriority(t *testing.T) {
	b := alone(1600*kib, 0)
	ahead := b.stream("a", nil)
	had := 0
	for ; had < 16 && ahead.asks(t, 100*kib); had++ {
		<-ahead.taken
	}
	if had != 5 { // 500: half of three times the 500 left free, minus what it holds
		t.Errorf("it has %d batches", had)
	}
	if !b.stream("a", nil).asks(t, 100*kib) {
		t.Error("another stream of the connection waits for its first batch")
	}
}

// A stream whose reader has taken batches gets more, however many other streams, also of its own connection, have
// taken none.
func TestBudget_ProvenStreamsHaveOwnShare(t *testing.T) {
	b := alone(1200*kib, 0)
	reads := b.stream("trainer", nil)
	for range provenBatches {
		reads.asks(t, 50*kib)
		sent := (<-reads.taken).sends(50 * kib)
		sent.Free()
	}
	for range 20 {
		b.stream("trainer", nil).asks(t, 50*kib)
	}
	for n := range 100 {
		b.stream(fmt.Sprint(n), nil).asks(t, 50*kib)
	}
	if got := b.heldBytes(); got > 975*kib {
		t.Errorf("%d bytes are held by those who have taken nothing", got)
	}
	reads.reads(t, 20, 50*kib)
}

// reads takes that many batches with a stream, one after the other. Each must be granted immediately.
func (s *stream) reads(t *testing.T, batches int, bytes int64) {
	t.Helper()
	for n := range batches {
		if !s.asks(t, bytes) {
			t.Fatalf("a stream that reads waits for batch %d", n)
		}
		sent := (<-s.taken).sends(bytes)
		sent.Free()
	}
}

// stalls makes all streams of a budget except those in but look blocked for a time.
func (s *slowReaderReaper) stalls(after time.Duration, but ...*stream) {
	b := s.budget
	b.mu.Lock()
	for h := range b.accounts {
		if !slices.ContainsFunc(but, func(x *stream) bool { return x.account == h }) {
			h.lastProgress = h.lastProgress.Add(-after)
		}
	}
	b.mu.Unlock()
	s.reap(time.Now(), time.Hour)
}

// Blocked streams that have read fill the limit of an identity. Another stream of the identity continues to read, and
// no stream is ended for it.
func TestBudget_ReaderContinuesDuringStalledStreams(t *testing.T) {
	for _, stalled := range []bool{true, false} {
		b := alone(1200*kib, 0)
		s := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
		good := b.streamOf("trainer", "good")
		good.reads(t, 1, 50*kib)
		var all []*stream
		for range 100 {
			x := b.streamOf("trainer", "flood")
			if x.asks(t, 50*kib) {
				sent := (<-x.taken).sends(50 * kib)
				sent.Free()
				if x.asks(t, 50*kib) {
					(<-x.taken).sends(50 * kib)
				}
			}
			all = append(all, x)
		}
		if stalled {
			s.stalls(stallAfter)
		}
		for range 20 {
			good.reads(t, 50, 50*kib)
			if stalled {
				s.stalls(0, good)
			}
		}
		for _, x := range all {
			if x.ended != nil {
				t.Fatal(x.ended)
			}
		}
	}
}

// A stream whose reader takes nothing gets no further batch until the reader takes something.
func TestBudget_StalledStreamGetsNoFurtherBatch(t *testing.T) {
	b := alone(1200*kib, 0)
	s := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
	x := b.stream("a", nil)
	if !x.asks(t, 50*kib) {
		t.Fatal("there was room")
	}
	sent := (<-x.taken).sends(50 * kib)
	s.stalls(stallAfter)
	if x.asks(t, 50*kib) {
		t.Fatal("a stalled stream has another batch")
	}
	if len(b.unproven.waitingShares)+len(b.proven.waitingShares) > 0 {
		t.Error("a stalled stream waits in turn")
	}
	sent.Free()
	<-x.taken
}

// A new connection gets its first batch, however many other connections of the identity have taken theirs.
func TestBudget_NewConnectionGetsFirstBatch(t *testing.T) {
	b := alone(1200*kib, 0)
	for c := range 5 {
		for range 100 {
			b.streamOf("trainer", fmt.Sprint(c)).asks(t, 50*kib)
		}
	}
	if !b.streamOf("trainer", "newcomer").asks(t, 50*kib) {
		t.Error("a newcomer waits for its first batch")
	}
}

// Blocked streams that hold the reserve lose it when a reading stream has waited for it. No other stream loses
// anything.
func TestBudget_StalledStreamsLoseReserve(t *testing.T) {
	b := alone(1200*kib, 0)
	s := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
	var all []*stream
	for i := range 30 {
		x := b.streamOf("a", fmt.Sprint(i))
		x.reads(t, 1, 50*kib)
		all = append(all, x)
	}
	good := b.streamOf("a", "good")
	good.reads(t, 1, 50*kib)
	for _, x := range all {
		if x.asks(t, 50*kib) {
			(<-x.taken).sends(50 * kib)
		}
	}
	if b.reserved != 50*kib || good.asks(t, 50*kib) {
		t.Fatalf("%d bytes of the reserve are held", b.reserved)
	}
	s.stalls(stallAfter)
	for _, x := range all {
		if x.ended != nil {
			t.Fatal("a stream has ended before one that reads waited for long")
		}
	}
	b.mu.Lock()
	good.pending.since = good.pending.since.Add(-reserveEvictAfter)
	b.mu.Unlock()
	s.stalls(reserveEvictAfter)
	for i, x := range all {
		if ended := x.ended != nil; ended != (x.reserved > 0) {
			t.Errorf("stream %d with %d bytes of the reserve: %v", i, x.reserved, x.ended)
		}
	}
}

// A batch larger than the budget is granted when nothing else is held, and no request overtakes it.
func TestBudget_BatchLargerThanBudgetIsGrantedAlone(t *testing.T) {
	b := alone(100*kib, 0)
	small, large, later := b.stream("a", nil), b.stream("b", nil), b.stream("c", nil)
	small.asks(t, 10*kib)
	if large.asks(t, 300*kib) || later.asks(t, 10*kib) {
		t.Fatal("it was not waited for")
	}
	(<-small.taken).Discard()
	(<-large.taken).Discard()
	(<-later.taken).Discard()
	holds(t, b, 0)
}

// A request that lacks bytes of the whole budget is not overtaken by streams that read.
func TestBudget_LargeBatchIsNotOvertaken(t *testing.T) {
	b := alone(1000*kib, 0)
	var reading []*stream
	for range 2 {
		s := b.stream("trainer", nil)
		b.mu.Lock()
		b.markProven(s.account)
		b.mu.Unlock()
		reading = append(reading, s)
	}
	large := b.stream("other", nil)
	if !reading[0].asks(t, 600*kib) || large.asks(t, 500*kib) || reading[1].asks(t, 100*kib) {
		t.Error("there was room for the first alone")
	}
	(<-reading[0].taken).Discard()
	<-large.taken
	<-reading[1].taken
}

// A waiting stream can be cancelled, and does not block the next one.
func TestBudget_CancelledWaitBlocksNoStream(t *testing.T) {
	b := alone(100*kib, 0)
	holder, waits, next := b.stream("a", nil), b.stream("b", nil), b.stream("c", nil)
	holder.asks(t, 50*kib)
	if waits.asks(t, 70*kib) || next.asks(t, 20*kib) {
		t.Fatal("there was no room")
	}
	waits.cancel()
	if err := <-waits.refused; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-next.taken
	holds(t, b, 70*kib)
}

// What a connection's streams held is free when the connection has ended, and a later release by gRPC changes
// nothing.
func TestBudget_LostConnectionFreesMemory(t *testing.T) {
	b := alone(1000*kib, 0)
	c := &connection{}
	s, waits := b.stream("a", c), b.stream("a", c)
	s.asks(t, 400*kib)
	sent := (<-s.taken).sends(400 * kib)
	if waits.asks(t, 700*kib) {
		t.Fatal("there was no room")
	}
	c.closed.Store(true)
	b.releaseConnection(c)
	holds(t, b, 0)
	waits.cancel()
	<-waits.refused
	sent.Free()
	s.closes()
	waits.closes()
	holds(t, b, 0)
	if late := b.stream("a", c); late.asks(t, 1) && len(late.taken) > 0 {
		t.Error("a stream of the connection that came late holds memory for ever")
	}
	if len(b.shares) > 1 || len(b.unproven.waitingShares) != 0 {
		t.Errorf("%d shares and %d turns are left", len(b.shares), len(b.unproven.waitingShares))
	}
}

// A stream that has waited for long ends the streams of its share that have been blocked for longest, and no other
// stream.
func TestSlowReaderReaper_EndsLongestBlockedStreams(t *testing.T) {
	b := alone(1200*kib, 0)
	s := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
	other := b.stream("other", nil)
	other.asks(t, 100*kib)
	(<-other.taken).sends(100 * kib)
	var still []*stream
	for range 4 {
		x := b.stream("a", nil)
		if !x.asks(t, 80*kib) {
			t.Fatal("there was room")
		}
		(<-x.taken).sends(80 * kib)
		still = append(still, x)
	}
	waits := b.stream("a", nil)
	if waits.asks(t, 170*kib) {
		t.Fatal("there was no room")
	}
	for i, x := range still {
		x.lastProgress = x.lastProgress.Add(-2*defaultEvictAfter + time.Duration(i)) // they have been blocked for long
	}
	s.reap(time.Now(), time.Hour)
	for _, x := range still {
		if x.ended != nil {
			t.Fatal("a stream has ended before anybody waited for long")
		}
	}
	s.reap(time.Now().Add(2*defaultEvictAfter), time.Hour)
	for i, x := range append(still, other) {
		var e *fault.Error
		if ended := errors.As(x.ended, &e) && e.Reason == fault.SlowReader; ended != (i < 3) {
			t.Errorf("stream %d: %v", i, x.ended)
		}
	}
}

// abandoned is a stream whose client reads some batches and then nothing.
type abandoned struct {
	*stream
	reads int
	asked bool // has requested a batch that is not granted yet
	gone  bool
	out   []mem.BufferSlice
}

// goOn handles the batch that the stream has been granted, as its client would, and requests the next one.
func (x *abandoned) goOn(t *testing.T, bytes int64) {
	for !x.gone && x.waits() == nil {
		if x.asked {
			if sent := (<-x.taken).sends(bytes); x.reads > 0 {
				x.reads--
				sent.Free()
			} else {
				x.out = append(x.out, sent)
			}
			x.asked = false
		}
		if len(x.out) == 3 { // one that gRPC writes, and two ahead
			return
		}
		x.asks(t, bytes)
		x.asked = true
	}
}

// cut ends the client's connection.
func (x *abandoned) cut() {
	x.gone = true
	x.cancel()
	if x.asked {
		select {
		case c := <-x.taken:
			c.Discard()
		case <-x.refused:
		}
	}
	for _, sent := range x.out {
		sent.Free()
	}
	x.closes()
}

// Any number of streams have stopped reading, of any identities and connections and after any number of batches. A
// stream that reads gets its first batches in its turn, once the others have been blocked for long, and further ones
// immediately.
func TestBudget_ServesStreamsThatRead(t *testing.T) {
	const bytes = 50 * kib
	rapid.Check(t, func(rt *rapid.T) {
		b := alone(1200*kib, 0)
		s := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
		var all []*abandoned
		goOn := func() {
			for _, x := range all {
				x.goOn(t, bytes)
			}
			b.check(t)
		}
		identity := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(0, 60).Draw(rt, "streams") {
			x := &abandoned{stream: b.streamOf(identity.Draw(rt, "identity"),
				fmt.Sprint(rapid.IntRange(0, 30).Draw(rt, "connection"))), reads: rapid.IntRange(0, 6).Draw(rt, "reads")}
			all = append(all, x)
			goOn()
		}
		good := b.streamOf(identity.Draw(rt, "identity of the reader"), "good")
		for batch := range establishedBatches + 30 {
			limit := time.Duration(-1)
			if batch < establishedBatches {
				limit = defaultEvictAfter + time.Duration(1+len(all))*(reserveEvictAfter+time.Second)
			}
			has := good.asks(t, bytes)
			for waited := time.Duration(0); !has; waited += time.Second {
				if waited > limit {
					rt.Fatalf("a stream that reads has waited for %s for batch %d", waited, batch)
				}
				b.mu.Lock()
				for h := range b.accounts {
					h.lastProgress = h.lastProgress.Add(-time.Second)
					if h.pending != nil {
						h.pending.since = h.pending.since.Add(-time.Second)
					}
				}
				b.mu.Unlock()
				s.reap(time.Now(), time.Hour)
				for _, x := range all {
					if x.ended != nil && !x.gone {
						x.cut()
					}
				}
				goOn()
				has = good.waits() == nil
			}
			sent := (<-good.taken).sends(bytes)
			sent.Free()
			goOn()
		}
	})
}

// Streams open, take, send, are read, are cancelled and lose their connections in any order. The bytes held stay
// within the budget, no stream waits while nothing is held, and at the end nothing is held.
func TestBudget_StaysWithinBoundsInAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := alone(1000*kib, 0)
		look := &slowReaderReaper{budget: b, log: slog.New(slog.DiscardHandler), samples: logsample.New()}
		var streams []*stream
		var out []mem.BufferSlice
		conns := []*connection{{}, {}, {}}
		for range 300 {
			switch rng.IntN(7) {
			case 6:
				look.stalls(stallAfter)
			case 0, 1:
				n := rng.IntN(len(conns))
				s := b.stream(fmt.Sprint(n), conns[n])
				s.asks(t, int64(20+rng.IntN(200))*kib)
				streams = append(streams, s)
			case 2, 3:
				for _, s := range streams {
					select {
					case c := <-s.taken:
						out = append(out, c.sends(16*kib))
						s.sent = true
					default:
					}
				}
			case 4:
				if len(out) > 0 {
					i := rng.IntN(len(out))
					out[i].Free()
					out = append(out[:i], out[i+1:]...)
				}
			case 5:
				if rng.IntN(10) == 0 {
					n := rng.IntN(len(conns))
					conns[n].closed.Store(true)
					b.releaseConnection(conns[n])
					for _, s := range streams {
						if s.connection == conns[n] {
							s.cancel()
						}
					}
					conns[n] = &connection{}
				} else if len(streams) > 0 {
					streams[rng.IntN(len(streams))].cancel()
				}
			}
			b.check(t)
		}
		for _, s := range streams {
			s.cancel()
			if !s.sent {
				select {
				case c := <-s.taken:
					c.Discard()
				case <-s.refused:
				}
			}
			s.closes()
		}
		for _, x := range out {
			x.Free()
		}
		if b.check(t); b.heldBytes() != 0 || len(b.accounts) != 0 || len(b.shares) != 0 {
			t.Fatalf("seed %d: %d bytes, %d streams and %d shares are left", seed, b.heldBytes(), len(b.accounts), len(b.shares))
		}
	}
}

// check compares the totals with the sums of their parts.
func (b *budget) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	held, fresh, spare, waits, largest := int64(0), int64(0), int64(0), 0, int64(0)
	for h := range b.accounts {
		held, spare, largest = held+h.bytes, spare+h.reserved, max(largest, h.bytes)
		if h.reserved > h.bytes || h.reserved < 0 || h.stalled && h.inFlight == 0 {
			t.Fatalf("a stream holds %d, %d of the reserve, %d are out, stalled %v", h.bytes, h.reserved, h.inFlight, h.stalled)
		}
		if !h.share.proven {
			fresh += h.bytes
		}
		if h.pending != nil && !h.stalled {
			waits++
		}
	}
	shares := int64(0)
	for _, s := range b.shares {
		shares += s.held
		spare -= s.reserved
		waits -= s.waitCount()
	}
	if held != b.held || fresh != b.unproven.held || fresh+b.proven.held != held || shares != held || waits != 0 ||
		held > b.size {
		t.Fatalf("noted: %d held, %d fresh; streams hold %d and %d fresh, shares %d; %d waits differ", b.held,
			b.unproven.held,
			held, fresh, shares, waits)
	}
	if spare != 0 {
		t.Fatalf("shares hold %d bytes of the reserve less than streams", spare)
	}
	if spare = b.reserved; spare > b.reserveBytes() || held > max(b.available(), largest) {
		t.Fatalf("%d bytes are held, %d of the reserve, which are %d; of %d and %d", held, spare, b.reserved, b.available(),
			b.reserveBytes())
	}
	for _, w := range b.reserveQueue {
		if w.account.pending != w || w.account.writtenBatches == 0 || w.account.bytes > 0 || w.account.stalled {
			t.Fatal("a stream that may not have the reserve waits for it")
		}
	}
	if len(b.reserveQueue) > 0 {
		if w := b.reserveQueue[0]; w.share.reserved == 0 && spare+w.bytes <= b.reserveLimit(w) &&
			held+w.bytes <= b.available() &&
			largest <= b.commonBytes() {
			t.Fatal("a stream that reads waits although the reserve has room")
		}
	}
	if held == 0 && len(b.unproven.waitingShares)+len(b.proven.waitingShares) > 0 {
		t.Fatal("somebody waits although nothing is held")
	}
}

func TestBudget_StreamsCostMemoryBeyondBatches(t *testing.T) {
	b := alone(1000*kib, 100*kib)
	for i := range 7 {
		if _, err := b.openAccount("who", "address", nil, nil); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	if got := b.available(); got != 300*kib {
		t.Errorf("%d bytes are for batches", got)
	}
	if _, err := b.openAccount("who", "address", nil, nil); err == nil {
		t.Error("an eighth stream is open, which costs more than three quarters")
	}
}

// gRPC's pools may retain a charge long after its stream has ended. The charge retains nothing else of the stream.
func TestBudget_ChargeRetainsNothingOfEndedStream(t *testing.T) {
	b, from := alone(1<<20, 0), &connection{}
	batches := new([1 << 20]byte)
	kept := weak.Make(batches)
	h, err := b.opened("a", "a", from, func(error) { clear(batches[:]) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.acquire(t.Context(), kib)
	if err != nil {
		t.Fatal(err)
	}
	c.HandOver(1, nil)
	b.releaseConnection(from)
	b.mu.Lock()
	h.close()
	b.mu.Unlock()
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the stream is kept")
	}
	runtime.KeepAlive(c)
}
