package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loaderd/internal/natstest"
	"loaderd/internal/reader"
	"loaderd/loader"
)

// When the embedded server has no space for what publishers store, the document stream looks dry. The status, the readers
// and /readyz name the folder and its free space.
func TestVerdict_FullDiskIsNotADryStream(t *testing.T) {
	c := settings(t)
	c.Serve.Stall = time.Second
	d := start(t, c)
	if err := stop(d, time.Minute); err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob(filepath.Join(c.Stream.Dir, "jetstream", "*", "streams", "KV_loaderd_publish", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("found %v, %v, want the block of the bucket of publishers", blocks, err)
	}
	if err := errors.Join(os.Remove(blocks[0]), os.Symlink("/dev/full", blocks[0])); err != nil {
		t.Fatal(err)
	}
	d = start(t, c)
	natstest.Soon(t, "the run reads documents", func() bool { return !d.run.Stats().Source.DrySince.IsZero() })
	defer func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	}()
	if _, err := d.Store().JetStream().Publish(t.Context(), "$KV.loaderd_publish.test", []byte("1")); err == nil {
		t.Fatal("a publisher's record is stored without space")
	}
	_, result := following(t, d)
	natstest.Soon(t, "the status names the full disk", func() bool { return d.run.Verdict().Reason == loader.StorageFull })
	v := d.run.Verdict()
	if v.Health != loader.Failing || v.Facts["path"] != c.Stream.Dir || !strings.Contains(v.Detail, c.Stream.Dir) {
		t.Errorf("verdict %+v, want failing with the path %s", v, c.Stream.Dir)
	}
	if free, err := strconv.Atoi(v.Facts["free_bytes"]); err != nil || free <= 0 {
		t.Errorf("free_bytes=%q, want the free space of the disk", v.Facts["free_bytes"])
	}
	if err := <-result; reader.Reason(err) != string(loader.StorageFull) {
		t.Errorf("the reader gets %v, want %s", err, loader.StorageFull)
	}
	if ready := get(t, d.http.url()+"/readyz"); !strings.Contains(ready, c.Stream.Dir) || !strings.Contains(ready, "make room") {
		t.Errorf("/readyz: %s", ready)
	}
}
