package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// When the embedded server has no disk space, the document stream appears dry. The status, the readers and /readyz
// name the folder and its free space.
func TestVerdict_FullDiskIsReportedAsStorageFull(t *testing.T) {
	d, dir := withoutSpaceFor(t, "KV_loaderd_publish")
	if _, err := d.Store().JetStream().Publish(t.Context(), "$KV.loaderd_publish.test", []byte("1")); err == nil {
		t.Fatal("a publisher's record is stored without space")
	}
	_, result := following(t, d)
	natstest.Eventually(t, "the status names the full disk", func() bool {
		return d.run.Verdict().Reason == fault.StorageFull
	})
	v := d.run.Verdict()
	if v.Health != diagnosis.Failing || v.Facts["path"] != dir || !strings.Contains(v.Detail, dir) {
		t.Errorf("verdict %+v, want failing with the path %s", v, dir)
	}
	if free, err := strconv.Atoi(v.Facts["free_bytes"]); err != nil || free <= 0 {
		t.Errorf("free_bytes=%q, want the free space of the disk", v.Facts["free_bytes"])
	}
	if err := <-result; flightclient.Reason(err) != string(fault.StorageFull) {
		t.Errorf("the reader gets %v, want %s", err, fault.StorageFull)
	}
	if ready := get(t, d.http.url()+"/readyz"); !strings.Contains(ready, dir) || !strings.Contains(ready, "make room") {
		t.Errorf("/readyz: %s", ready)
	}
}

// If the first document of an empty stream is not stored for lack of disk space, the server reports 2 as the stream's
// first sequence. The run must not end with DOCUMENT_LOST, because no stored document was lost.
func TestVerdict_FullDiskDoesNotReportDocumentLost(t *testing.T) {
	d, _ := withoutSpaceFor(t, "DOCS")
	_, result := following(t, d)
	if _, err := d.Store().JetStream().Publish(t.Context(), "docs.a", []byte("a document")); err == nil {
		t.Fatal("a document is stored without space")
	}
	natstest.Eventually(t, "the status names the full disk", func() bool {
		return d.run.Verdict().Reason == fault.StorageFull
	})
	if err := <-result; flightclient.Reason(err) != string(fault.StorageFull) {
		t.Errorf("the reader gets %v, want %s", err, fault.StorageFull)
	}
}

// withoutSpaceFor starts a daemon on whose embedded server every write to one stream fails for lack of disk space. It
// returns the daemon and its data folder.
func withoutSpaceFor(t *testing.T, name string) (d *Daemon, dir string) {
	t.Helper()
	c := settings(t)
	c.Serve.StallTimeout = time.Second
	d = start(t, c)
	if err := stop(d, time.Minute); err != nil {
		t.Fatal(err)
	}
	blocks, err := filepath.Glob(filepath.Join(c.Stream.Dir, "jetstream", "*", "streams", name, "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("found %v, %v, want one block of stream %s", blocks, err, name)
	}
	if err := errors.Join(os.Remove(blocks[0]), os.Symlink("/dev/full", blocks[0])); err != nil {
		t.Fatal(err)
	}
	d = start(t, c)
	natstest.Eventually(t, "the run reads documents", func() bool { return !d.run.Stats().Source.DrySince.IsZero() })
	t.Cleanup(func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	})
	return d, c.Stream.Dir
}
