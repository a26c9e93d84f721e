package arrowout

import (
	"testing"

	"google.golang.org/grpc/mem"
)

// Memory has the length asked for, at most an eighth more behind it, and a place of its own size.
func TestSizesOfAShelf(t *testing.T) {
	sizes := map[int]int{} // by place
	for n := leastShelved; n <= mostShelved; n += 1 + n/97 {
		place, size, ok := shelved(n)
		if !ok || place < 0 || place >= shelfSizes || size < n || size > n+n/shelfSteps {
			t.Fatalf("%d bytes: place %d, %d bytes, %v", n, place, size, ok)
		}
		if before, there := sizes[place]; there && before != size {
			t.Fatalf("place %d has memory of %d and %d bytes", place, before, size)
		}
		sizes[place] = size
		if again, same, _ := shelved(size); again != place || same != size {
			t.Fatalf("memory of %d bytes goes to place %d of %d bytes, from %d", size, again, same, place)
		}
	}
	for _, n := range []int{0, leastShelved - 1, mostShelved + 1} {
		if _, size, ok := shelved(n); ok || size != n {
			t.Errorf("%d bytes are kept", n)
		}
	}
	if place, _, ok := shelved(mostShelved); !ok || place >= shelfSizes {
		t.Errorf("the largest memory has place %d of %d", place, shelfSizes)
	}
}

// Memory of a message comes back when gRPC has let go of all of its buffers, and of every reference to them; not before.
func TestMemoryComesBackWithTheLastReference(t *testing.T) {
	returned := 0
	from := &shelf{returned: func([]byte) { returned++ }}
	b := newBudget(1<<30, 0)
	h, _ := b.open("", "", nil, nil)
	c, err := h.take(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	l := &loan{shelf: from}
	m := &message{header: []byte("header"), charge: c, loan: l}
	for range 2 {
		if _, err := m.Write(l.bytes(8 << 10)); err != nil {
			t.Fatal(err)
		}
	}
	var held []mem.Buffer
	for _, buffer := range m.marshal() {
		buffer.Ref() // as the transport does until it has written it
		held = append(held, buffer)
		buffer.Free()
	}
	for i, buffer := range held {
		if returned != 0 {
			t.Fatalf("memory came back while gRPC had %d of %d buffers", len(held)-i, len(held))
		}
		buffer.Free()
	}
	if returned != 2 || b.inUse() != 0 {
		t.Errorf("%d of 2 pieces of memory came back, the budget has %d bytes out", returned, b.inUse())
	}
}
