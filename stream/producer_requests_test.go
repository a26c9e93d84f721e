package stream_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
	"loaderd/stream"
	"loaderd/stream/planlog"
	"loaderd/stream/server"
)

// serverRequests returns the subjects on which the NATS server serves requests, for every stream in streams. It reads
// the constants of the linked module, so that requests of a later version are included.
func serverRequests(t *testing.T, streams ...string) (subjects []string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2/server").Output()
	if err != nil {
		t.Fatalf("find the sources of the NATS server: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err == nil && strings.HasPrefix(text, "$") && !strings.ContainsAny(text, " \r\n") {
				for _, s := range streams {
					subjects = append(subjects, fill(text, s))
				}
			}
			return true
		})
	}
	slices.Sort(subjects)
	subjects = slices.DeleteFunc(slices.Compact(subjects), func(s string) bool { return s == "" })
	for _, known := range []string{
		"$JS.API.STREAM.PURGE.DOCS", "$JS.API.STREAM.DELETE.DOCS", "$JS.API.CONSUMER.MSG.NEXT.DOCS.work",
		"$JS.API.META.LEADER.STEPDOWN",
	} {
		if !slices.Contains(subjects, known) {
			t.Fatalf("%s is not among the %d requests that were found", known, len(subjects))
		}
	}
	return subjects
}

// fill replaces the wildcards of a request's pattern by names: a stream, its consumer, a subject. It returns an empty
// string for a pattern that is not a subject.
func fill(pattern, stream string) string {
	names := []string{stream, "work", "docs.carried"}
	tokens := strings.Split(strings.TrimSuffix(pattern, "."), ".")
	for i, token := range tokens {
		if token == "*" || token == ">" || strings.Contains(token, "%") {
			tokens[i] = names[0]
			if len(names) > 1 {
				names = names[1:]
			}
		}
		if token == "" || token == "$" {
			return ""
		}
	}
	return strings.Join(tokens, ".")
}

// bodies returns payloads with which a request of a kind changes something.
func bodies(request string) []string {
	name := request[strings.LastIndexByte(request, '.')+1:]
	for operation, body := range map[string]string{
		"STREAM.CREATE":  fmt.Sprintf(`{"name":%q,"subjects":["carried.%s"],"storage":"memory"}`, name, name),
		"STREAM.UPDATE":  fmt.Sprintf(`{"name":%q,"subjects":["docs.>"],"storage":"file","description":"changed"}`, name),
		"STREAM.RESTORE": fmt.Sprintf(`{"config":{"name":%q,"subjects":["carried"],"storage":"file"},"state":{}}`, name),
		"SNAPSHOT":       `{"deliver_subject":"_INBOX.carried"}`,
		"MSG.DELETE":     `{"seq":1}`,
		"PEER.":          `{"peer":"n1"}`,
		"CREATE":         `{"stream_name":"DOCS","config":{"durable_name":"x","name":"x","deliver_subject":"dlq.docs.x"}}`,
		"PAUSE":          `{"pause_until":"2100-01-01T00:00:00Z"}`,
		"MSG.NEXT":       `1`,
	} {
		if strings.Contains(request, operation) {
			return []string{body, ""}
		}
	}
	return []string{"", `{}`}
}

// site is a server, or a cluster of three, with a producer's connections to each member.
type site struct {
	stores    []*stream.Store
	producers []*nats.Conn
}

func newSite(t *testing.T, stores ...*stream.Store) *site {
	s := &site{stores: stores}
	for _, store := range stores {
		url := natstest.URLWithToken(store.ClientURL(), store.Config().Dir, server.ProducerFile)
		nc, err := nats.Connect(url, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		s.producers = append(s.producers, nc)
	}
	return s
}

// carrier causes the server to publish a body to a subject.
type carrier func(ctx context.Context, nc *nats.Conn, subject, body string) error

// stored publishes a document and returns its sequence.
func stored(ctx context.Context, nc *nats.Conn, subject, body string) (sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, []byte(body))
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq uint64 `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Seq == 0 {
		return 0, fmt.Errorf("a document is not stored: %s", m.Data)
	}
	return ack.Seq, nil
}

// got returns a carrier that stores the body as a document, and gets it with the subject as the reply subject.
func got(request func(sequence uint64) (subject, question string)) carrier {
	return func(ctx context.Context, nc *nats.Conn, subject, body string) error {
		sequence, err := stored(ctx, nc, "docs.carried", body)
		if err != nil {
			return err
		}
		get, question := request(sequence)
		return nc.PublishRequest(get, subject, []byte(question))
	}
}

// with returns a carrier that sends a message with a header whose value is derived from the subject.
func with(subject, header string, value func(subject string) string) carrier {
	return func(_ context.Context, nc *nats.Conn, to, body string) error {
		m := nats.NewMsg(cmp.Or(subject, to))
		m.Data, m.Reply = []byte(body), nc.NewInbox()
		m.Header.Set(header, value(to))
		return nc.PublishMsg(m)
	}
}

func same(subject string) string { return subject }

// carriers are the ways in which a producer can cause a publish to a subject: directly, and as the response to
// a permitted request.
var carriers = map[string]carrier{
	"published": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		return nc.Publish(subject, []byte(body))
	},
	"requested": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		return nc.PublishRequest(subject, nc.NewInbox(), []byte(body))
	},
	"acknowledgement of a document": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		return nc.PublishRequest("docs.carried", subject, []byte(body))
	},
	"acknowledgement of a record": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		return nc.PublishRequest("$KV.loaderd_publish.carried.x", subject, []byte(body))
	},
	"acknowledgement of a batch": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		m := nats.NewMsg("docs.carried")
		m.Data, m.Reply = []byte(body), subject
		m.Header = nats.Header{"Nats-Batch-Id": {nats.NewInbox()}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}}
		return nc.PublishMsg(m)
	},
	"refused document": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		m := nats.NewMsg("docs.carried")
		m.Data, m.Reply = []byte(body), subject
		m.Header.Set("Nats-Expected-Stream", "another")
		return nc.PublishMsg(m)
	},
	"direct get of a sequence": got(func(n uint64) (string, string) {
		return "$JS.API.DIRECT.GET.DOCS", fmt.Sprintf(`{"seq":%d}`, n)
	}),
	"direct get of several": got(func(n uint64) (string, string) {
		return "$JS.API.DIRECT.GET.DOCS", fmt.Sprintf(`{"seq":%d,"batch":2,"no_hdr":true}`, n)
	}),
	"direct get of the next": got(func(n uint64) (string, string) {
		return "$JS.API.DIRECT.GET.DOCS", fmt.Sprintf(`{"seq":%d,"next_by_subj":"docs.>"}`, n)
	}),
	"direct get of the last": got(func(uint64) (string, string) { return "$JS.API.DIRECT.GET.DOCS.docs.carried", "" }),
	"direct get of last ones": got(func(uint64) (string, string) {
		return "$JS.API.DIRECT.GET.DOCS", `{"multi_last":["docs.carried"]}`
	}),
	"get of the leader": got(func(n uint64) (string, string) {
		return "$JS.API.STREAM.MSG.GET.DOCS", fmt.Sprintf(`{"seq":%d}`, n)
	}),
	"pull of a consumer": got(func(uint64) (string, string) { return "$JS.API.CONSUMER.MSG.NEXT.DOCS.work", "1" }),
	"flow control":       got(func(uint64) (string, string) { return "$JS.FC.DOCS.work.x", "" }),
	"acknowledgement of a consumer": got(func(uint64) (string, string) {
		return "$JS.ACK.DOCS.work.1.1.1.1.1", "+NXT"
	}),
	"push of a consumer": func(_ context.Context, nc *nats.Conn, subject, _ string) error {
		config := fmt.Sprintf(`{"stream_name":"DOCS","config":{"name":"push","deliver_subject":%q,"ack_policy":"none"}}`,
			subject)
		for _, request := range []string{"CREATE.DOCS", "CREATE.DOCS.push", "DURABLE.CREATE.DOCS.push"} {
			if err := nc.PublishRequest("$JS.API.CONSUMER."+request, nc.NewInbox(), []byte(config)); err != nil {
				return err
			}
		}
		return nil
	},
	"republished by a source": func(_ context.Context, nc *nats.Conn, subject, _ string) error {
		config := fmt.Sprintf(`{"name":"COPY","sources":[{"name":"DOCS"}],"republish":{"src":">","dest":%q}}`, subject)
		return nc.PublishRequest("$JS.API.STREAM.CREATE.COPY", nc.NewInbox(), []byte(config))
	},
	"republished by a mirror": func(_ context.Context, nc *nats.Conn, subject, _ string) error {
		config := fmt.Sprintf(`{"name":"COPY","mirror":{"name":"DOCS","external":{"api":"$JS.API","deliver":%q}}}`, subject)
		return nc.PublishRequest("$JS.API.STREAM.CREATE.COPY", nc.NewInbox(), []byte(config))
	},
	"trace of a document":  with("docs.carried", "Nats-Trace-Dest", same),
	"scheduled document":   with("docs.carried", "Nats-Schedule-Target", same),
	"rollup of a document": with("docs.carried", "Nats-Rollup", func(string) string { return "all" }),
	"request of another account": with("", "Nats-Request-Info", func(string) string {
		return `{"acc":"DOCUMENTS","svc":"DOCUMENTS","user":"documents","start":"2026-01-01T00:00:00Z"}`
	}),
	"answer of the streams": func(_ context.Context, nc *nats.Conn, subject, _ string) error {
		for _, request := range []string{"INFO", "STREAM.NAMES", "STREAM.INFO.DOCS", "DIRECT.GET.KV_loaderd_readers.x"} {
			if err := nc.PublishRequest("$JS.API."+request, subject, nil); err != nil {
				return err
			}
		}
		return nil
	},
	"reserved reply": func(_ context.Context, nc *nats.Conn, subject, body string) error {
		return errors.Join(
			nc.PublishRequest("docs.carried", "_R_."+subject, []byte(body)),
			nc.PublishRequest("docs.carried", "_GR_."+subject, []byte(body)))
	},
}

// held returns the state that a producer may not change: every stream of an account with its settings, messages and
// consumers. Documents and publishers' records are added meanwhile; of those, only a removal counts.
func held(t *testing.T, store *stream.Store) map[string]string {
	t.Helper()
	ctx := natstest.Context(t)
	all := map[string]string{}
	list := store.JetStream().ListStreams(ctx)
	for info := range list.Info() {
		config, err := json.Marshal(info.Config)
		if err != nil {
			t.Fatal(err)
		}
		state := fmt.Sprintf("%d messages to %d", info.State.Msgs, info.State.LastSeq)
		switch info.Config.Name {
		case "KV_loaderd_publish":
			state = ""
		case "DOCS":
			state = fmt.Sprintf("from %d, %d missing", info.State.FirstSeq, info.State.LastSeq-info.State.Msgs)
		}
		st, err := store.JetStream().Stream(ctx, info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		consumers := st.ListConsumers(ctx)
		for c := range consumers.Info() {
			state += fmt.Sprintf(", consumer %s: %v, %d delivered", c.Name, c.Config, c.Delivered.Consumer)
		}
		if err := consumers.Err(); err != nil {
			t.Fatal(err)
		}
		all[info.Config.Name] = string(config) + " " + state
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestProducerToken_ReachesNoOtherRequest makes every request of the NATS server by every carrier with the producers'
// token, on one server and in a cluster.
func TestProducerToken_ReachesNoOtherRequest(t *testing.T) {
	t.Run("one server", func(t *testing.T) {
		s := natstest.StartEmbedded(t)
		reachNothing(t, newSite(t, s.Store()), 1)
	})
	t.Run("cluster", func(t *testing.T) {
		stores := openMembers(t, members(t))
		t.Cleanup(func() {
			for _, store := range stores {
				_ = store.Close()
			}
		})
		natstest.Eventually(t, "the document stream is made", func() bool {
			_, err := stores[0].EnsureDocuments(natstest.Context(t))
			return err == nil
		})
		reachNothing(t, newSite(t, stores...), testscale.Of(5, 1))
	})
}

// reachNothing checks every n-th request of the server, with every carrier.
func reachNothing(t *testing.T, s *site, n int) {
	ctx, store := natstest.TimeoutContext(t, 5*time.Minute), s.stores[0]
	openDocuments(t, store)
	if _, err := store.EnsureDeadLetters(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.EnsureRecords(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.EnsureKeyValue(ctx, stream.ReadersBucket, "readers"); err != nil {
		t.Fatal(err)
	}
	if _, err := planlog.Open(ctx, store, "r"); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, store, natstest.Documents(1, 20)...)
	docs, err := store.JetStream().Stream(ctx, "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	work := jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckNonePolicy, FilterSubject: "docs.carried"}
	taken := listen(t, store)
	awaitReports(t, taken, docs)
	if _, err := docs.CreateConsumer(ctx, work); err != nil {
		t.Fatal(err)
	}
	until(t, taken, "$JS.API.CONSUMER.CREATE.DOCS.work.docs.carried")
	snapshot := func() [2]map[string]string { return [2]map[string]string{held(t, store), held(t, store.Own())} }
	before := snapshot()
	requests := serverRequests(t, "DOCS", "PLAN_r")
	for _, name := range slices.Sorted(maps.Keys(carriers)) {
		carry := carriers[name]
		for i := 0; i < len(requests); i += n {
			request := requests[i]
			for _, body := range bodies(request) {
				if err := carry(ctx, s.producers[i%len(s.producers)], request, body); err != nil {
					t.Fatalf("%s to %s: %v", name, request, err)
				}
			}
		}
		for _, nc := range s.producers {
			if _, err := stored(ctx, nc, "docs.carried", "behind all"); err != nil {
				t.Fatalf("behind %s: %v", name, err)
			}
		}
		if after := snapshot(); fmt.Sprint(before) != fmt.Sprint(after) {
			for account := range before {
				for stream, is := range before[account] {
					if after[account][stream] != is {
						t.Errorf("%s: stream %s was\n%s\nand is\n%s", name, stream, is, after[account][stream])
					}
				}
			}
			t.Fatalf("%s: streams were %d and %d, and are %d and %d", name, len(before[0]), len(before[1]), len(after[0]),
				len(after[1]))
		}
	}
	if err := docs.DeleteConsumer(ctx, "work"); err != nil {
		t.Fatal(err)
	}
	executed := until(t, taken, "$JS.API.CONSUMER.DELETE.DOCS.work")
	if !executed["$JS.API.STREAM.INFO.DOCS"] {
		t.Errorf("the server reports %d requests, without those that producers may make", len(executed))
	}
	for request := range executed {
		if changes(request) && !strings.Contains(request, probe) {
			t.Errorf("the server took %s", request)
		}
	}
	holds(t, store, 20)
	natstest.Publish(t, store, natstest.Documents(21, 1)...)
}

// changes reports whether a request changes something.
func changes(request string) bool {
	for _, harmless := range []string{
		"INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.", "STREAM.MSG.GET.", "CONSUMER.LIST.", "CONSUMER.INFO.",
	} {
		if strings.HasPrefix(request, "$JS.API."+harmless) {
			return false
		}
	}
	return true
}

// listen returns the subjects of the requests that the server reports as executed in the documents' account.
func listen(t *testing.T, store *stream.Store) <-chan string {
	t.Helper()
	taken := make(chan string, 1<<16)
	sub, err := store.Conn().Subscribe("$JS.EVENT.ADVISORY.API", func(m *nats.Msg) {
		var advisory struct {
			Subject string `json:"subject"`
		}
		if json.Unmarshal(m.Data, &advisory) == nil {
			taken <- advisory.Subject
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := store.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return taken
}

// awaitReports waits until requests are reported. In a cluster the server that executes them may not know the
// subscription of listen yet.
func awaitReports(t *testing.T, taken <-chan string, docs jetstream.Stream) {
	t.Helper()
	ctx := natstest.Context(t)
	for reported := false; !reported; {
		_, err := docs.CreateConsumer(ctx, jetstream.ConsumerConfig{Name: probe, AckPolicy: jetstream.AckNonePolicy})
		if err == nil {
			err = docs.DeleteConsumer(ctx, probe)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case request := <-taken:
			reported = strings.Contains(request, probe)
		case <-time.After(time.Second):
		}
	}
}

// probe is the name of a consumer of the test.
const probe = "probe-of-the-test"

// until returns the requests that the server reports before the test's own request last. Reports follow the
// responses.
func until(t *testing.T, taken <-chan string, last string) map[string]bool {
	t.Helper()
	all, limit := map[string]bool{}, time.After(time.Minute)
	for {
		select {
		case request := <-taken:
			if request == last {
				return all
			}
			all[request] = true
		case <-limit:
			t.Fatalf("the server does not report %s", last)
		}
	}
}
