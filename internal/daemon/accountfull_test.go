package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"loaderd/internal/config"
	"loaderd/internal/natstest"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// limitedAccount runs a NATS server with one account that may store the given number of bytes, and returns its
// address.
func limitedAccount(t *testing.T, store int64) string {
	t.Helper()
	account := server.NewAccount("TEAM")
	s := natstest.StartPlainServer(t, &server.Options{JetStream: true, Accounts: []*server.Account{account},
		Users: []*server.User{{Username: "team", Password: "p", Account: account}}})
	registered, err := s.LookupAccount("TEAM")
	if err == nil {
		err = registered.EnableJetStream(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: store,
			MaxStreams: -1, MaxConsumers: -1}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "nats://team:p@" + s.Addr().String()
}

// A full JetStream account is reported as the cause, independent of the limit of the stream. In this state the server
// does not answer a publisher's batch.
func TestFullStream_ReportsAccountLimit(t *testing.T) {
	t.Parallel()
	d := publishesBeyond(t, limitedAccount(t, 16<<20),
		"the JetStream account of DOCS has no storage left: its streams hold 16")
	natstest.Eventually(t, "the status names the account", func() bool {
		return d.run.Verdict().Reason == fault.StreamFull
	})
	v := d.run.Verdict()
	if !strings.Contains(v.Sentence, `The JetStream account of document stream "DOCS" is full (16.0 MiB of 16.0 MiB)`) ||
		!strings.Contains(v.Advice, "raise the storage limit of the JetStream account") ||
		v.Facts["limit"] != "account" || v.Health != diagnosis.Failing {
		t.Errorf("%+v", v)
	}
}

// A full NATS server is reported by the publisher, which is the only client that is notified of it.
func TestFullStream_ReportsServerLimit(t *testing.T) {
	t.Parallel()
	publishesBeyond(t, "nats://"+natstest.StartPlain(t, &server.Options{JetStream: true, JetStreamMaxStore: 16 << 20}),
		"the NATS server of DOCS has no storage left")
}

// publishesBeyond starts a daemon on the server at url, without a limit of its document stream. It publishes 24 MiB
// until the publisher reports the reason why it waits.
func publishesBeyond(t *testing.T, url, why string) *Daemon {
	t.Helper()
	c := settings(t)
	c.Stream.Dir, c.Stream.Listen, c.Stream.URL = "", "", url
	c.Stream.MaxBytes, c.Stream.PlanBytes, c.Stream.DeadLetterBytes = 2<<20, 2<<20, 1<<20
	c.Plan.Packing, c.Plan.Shuffle.Window = config.Default().Plan.Packing, config.Default().Plan.Shuffle.Window
	c.Plan.Packing.Buckets, c.Plan.Packing.Pool = []int{1024}, 8192
	c.Plan.Shuffle.Window = 32
	d := start(t, c)
	t.Cleanup(func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	})
	js := d.Store().JetStream()
	st, err := js.Stream(t.Context(), "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	unbounded := st.CachedInfo().Config
	unbounded.MaxBytes = -1
	if _, err := js.UpdateStream(t.Context(), unbounded); err != nil {
		t.Fatal(err)
	}
	waits, _ := publishDocuments(t, c.Stream, 6000)
	for reason := range waits {
		if strings.Contains(reason, why) {
			break
		}
		t.Logf("the publisher waits: %s", reason)
	}
	return d
}
