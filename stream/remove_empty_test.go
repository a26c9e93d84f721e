package stream_test

import (
	"errors"
	"net"
	"slices"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/stream"
	"loaderd/stream/planlog"
	"loaderd/stream/server"
)

// A failed start removes the empty streams that it created, and nothing else.
func TestRemoveEmptyStreams_RemovesOnlyOwnEmptyStreams(t *testing.T) {
	ctx := natstest.Context(t)
	srv := natstest.StartEmbedded(t)
	before, err := planlog.Open(ctx, srv.Store(), "before") // empty, and of another start
	if err != nil {
		t.Fatal(err)
	}
	store := srv.OpenRemote()
	openDocuments(t, store)
	for _, run := range []string{"before", "new"} {
		openRun(t, store, run)
	}
	natstest.Publish(t, srv.Store(), natstest.Documents(1, 1)...)
	if err := store.RemoveEmptyStreams(ctx); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, account := range []*stream.Store{store, store.Own()} {
		for name := range account.JetStream().StreamNames(ctx).Name() {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if want := []string{"DOCS", "PLAN_before"}; !slices.Equal(left, want) {
		t.Errorf("streams left are %v, want %v", left, want)
	}
	if _, err := before.Last(ctx); err != nil {
		t.Error(err)
	}
}

// On a cluster a failed start keeps the streams that it created, because other daemons may have opened them.
func TestRemoveEmptyStreams_KeepsStreamsOfCluster(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	store := c.Store(0)
	created := stream.Created(openDocuments(t, store).CachedInfo())
	if err := store.RemoveEmptyStreams(natstest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if now := stream.Created(openDocuments(t, c.Store(1)).CachedInfo()); !now.Equal(created) {
		t.Errorf("the document stream was made at %v, and again at %v", created, now)
	}
}

// A data folder can be opened while another daemon uses the configured port, because OpenExclusive does not listen.
func TestOpenExclusive_DoesNotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := natstest.Config(t)
	c.Listen = taken.Addr().String()
	store, err := stream.OpenExclusive(natstest.Context(t), c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	openDocuments(t, store)
	natstest.Publish(t, store, natstest.Documents(1, 3)...)
	if url := store.ClientURL(); url != "" {
		t.Errorf("clients are sent to %s", url)
	}
	if _, err := stream.OpenExclusive(natstest.Context(t), c, quiet()); !errors.Is(err, server.ErrFolderInUse) ||
		server.HolderURL(c.Dir) != "" {
		t.Errorf("a second one: %v, at %q", err, server.HolderURL(c.Dir))
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	c.Listen = "127.0.0.1:0"
	listening := natstest.Open(t, c)
	defer listening.Close()
	if url := server.HolderURL(c.Dir); url != listening.ClientURL() || url == "" {
		t.Errorf("the folder is served at %s, it reports %q", listening.ClientURL(), url)
	}
	holds(t, listening, 3)
}
