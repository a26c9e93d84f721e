package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"loaderd/internal/auth"
	"loaderd/internal/config"
	"loaderd/internal/goldentest"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
)

const permissionsHead = `# Permissions by identity and call

<!-- Written by go test ./internal/daemon -run PermissionMatrix -update: the test makes every call of a daemon as each identity. -->

The calls are those that a daemon registers: its gRPC methods, its actions and its HTTP routes. See [roles](../explanation/security.md#roles).

| column | caller |
| --- | --- |
| none, wrong, expired, revoked | no token, a token of no identity, one of an identity that has expired, one of an identity that was removed |
| other run | an identity with the role ` + "`operate`" + ` for another run |
| read, train, operate | an identity with this role |
| by proxy | an identity with the role ` + "`operate`" + `; the request has a header of a proxy |
| open | no token, from the daemon's own machine, where the daemon requires none (` + "`flight.insecure`" + `) |
| open, by proxy | the same; the request has a header of a proxy |
| default, none | no token, from the daemon's own machine, with the default configuration |
| default, token | the same, with the token of the daemon's data folder |

| cell | answer |
| --- | --- |
| yes | the call is permitted |
| 401, 403 | ` + "`INVALID_TOKEN`, `FORBIDDEN`" + `; HTTP uses these statuses |
| no | there is no such call |
`

// proxied is a header that proxies add.
const proxied = "X-Forwarded-For"

// caller calls a daemon as one identity.
type caller struct {
	name, token string
	proxied     bool
	daemon      *Daemon
	conn        *grpc.ClientConn
	http        *http.Client
}

// callers returns a caller per column of the matrix. The first group calls a daemon with identities, the second group
// daemons without.
func callers(t *testing.T) (groups [2][]*caller) {
	file := filepath.Join(t.TempDir(), "identities.json")
	let := func(name string, role auth.Role, change ...func(*auth.Identity)) string {
		token, hash := auth.NewToken()
		i := auth.Identity{Name: strings.ReplaceAll(name, " ", "-"), Role: role, SHA256: hash}
		for _, f := range change {
			f(&i)
		}
		if err := auth.Add(file, i); err != nil {
			t.Fatal(err)
		}
		return token
	}
	_, wrong := auth.NewToken()
	groups[0] = []*caller{
		{name: "none"},
		{name: "wrong", token: wrong},
		{name: "expired", token: let("expired", auth.Operate, func(i *auth.Identity) {
			i.Expires = time.Now().Add(-time.Hour)
		})},
		{name: "revoked", token: let("revoked", auth.Operate)},
		{name: "other run", token: let("other run", auth.Operate, func(i *auth.Identity) { i.Runs = []string{"other"} })},
	}
	for _, role := range auth.Roles {
		groups[0] = append(groups[0], &caller{name: string(role), token: let(string(role), role)})
	}
	groups[0] = append(groups[0], &caller{name: "by proxy", token: let("by proxy", auth.Operate), proxied: true})
	groups[1] = []*caller{{name: "open"}, {name: "open, by proxy", proxied: true}}

	asking := startMixed(t, func(c *config.Config) { c.Flight.Identities = file })
	if err := auth.Remove(file, "revoked"); err != nil {
		t.Fatal(err)
	}
	if err := asking.flight.Gate().Reload(); err != nil {
		t.Fatal(err)
	}
	open := startMixed(t, func(*config.Config) {})
	own := startMixed(t, func(c *config.Config) { c.Flight.Insecure = false })
	token, err := auth.ReadToken(filepath.Join(own.config.Stream.Dir, auth.FlightTokenFile))
	if err != nil {
		t.Fatal(err)
	}
	defaults := []*caller{{name: "default, none"}, {name: "default, token", token: token}}
	for group, all := range [][]*caller{groups[0], groups[1], defaults} {
		for i, c := range all {
			c.connect(t, []*Daemon{asking, open, own}[group], byte(2+10*group+i))
		}
	}
	groups[1] = append(groups[1], defaults...)
	return groups
}

// startMixed starts a daemon whose run has two sources.
func startMixed(t *testing.T, change func(*config.Config)) *Daemon {
	c := settings(t)
	c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 0.5, Epochs: 1}, "code": {Weight: 0.5, Epochs: 1}}
	change(&c)
	d := start(t, c)
	t.Cleanup(func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	})
	return d
}

// connect connects a caller to d. On systems with more loopback addresses than 127.0.0.1 the caller gets its own,
// because responses to rejected calls are delayed per host.
func (c *caller) connect(t *testing.T, d *Daemon, host byte) {
	dialer := &net.Dialer{}
	if runtime.GOOS == "linux" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}
	}
	conn, err := grpc.NewClient("passthrough:///"+d.flight.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", at)
		}))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: dialer.DialContext}
	c.daemon, c.conn, c.http = d, conn, &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// request is one variant of a call. message is the message of a gRPC method or the body of an action. Its %s is
// replaced by the caller's name, so that no two callers use the same job or job.
type request struct {
	about   string // empty: the usual variant
	message string
}

// bodies are the bodies of actions for which an empty body is invalid, or whose permission depends on the body.
var bodies = map[string][]request{
	"commit": {{"", `{"step":0}`}, {"another's job", `{"step":0,"job":"another/%s"}`}},
	"leave":  {{"", `{}`}, {"another's job", `{"job":"another/%s"}`}},
	"cause":  {{"", `{"step":0}`}}, "ledger": {{"", `{"step":0}`}},
	"find": {{"", `{"source":"web","sequence":1}`}}, "text": {{"", `{"source":"web","sequence":1}`}},
	"mix":      {{"", `{"weights":{"web":1,"code":1}}`}, {"without a change", `{}`}},
	"filter":   {{"", `{"where":"tokens > 0"}`}, {"without a change", `{}`}},
	"schedule": {{"", `{"phases":[{"rows":64}]}`}, {"without a change", `{}`}},
	"consumed": {{"", `{"session":"` + strings.Repeat("5e", 16) + `","taken":0}`}},
	"resize":   {{"", `{"session":"` + strings.Repeat("5e", 16) + `","rank":1,"world":2,"step":0,"left":true}`}},
}

func bodiesOf(action string) []request {
	if all, ok := bodies[action]; ok {
		return all
	}
	return []request{{"", "{}"}}
}

// messages returns the messages of a gRPC method, an empty message for methods that need none.
func messages(method, run string, c *caller) (abouts []string, all []proto.Message) {
	d := &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{run}}
	switch method[strings.LastIndex(method, "/")+1:] {
	case "GetFlightInfo", "GetSchema", "PollFlightInfo":
		return []string{""}, []proto.Message{d}
	case "DoGet":
		own, other := "{}", fmt.Sprintf(`{"job":"another/%s"}`, c.slug())
		if c.token != "" {
			own = fmt.Sprintf(`{"job":%q}`, c.slug())
		}
		return []string{"", "another's job"}, []proto.Message{&flight.Ticket{Ticket: []byte(own)},
			&flight.Ticket{Ticket: []byte(other)}}
	}
	return []string{""}, []proto.Message{&emptypb.Empty{}}
}

func (c *caller) slug() string { return strings.NewReplacer(" ", "-", ",", "").Replace(c.name) }

// invoke makes a gRPC call and waits for its first response.
func (c *caller) invoke(ctx context.Context, method string, message proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	if c.proxied {
		ctx = metadata.AppendToOutgoingContext(ctx, proxied, "192.0.2.1")
	}
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		if err = s.SendMsg(message); err == nil {
			err = s.CloseSend()
		}
		if err == nil || err == io.EOF { // the response contains the result
			err = s.RecvMsg(&emptypb.Empty{})
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// answerOf returns the matrix cell of a gRPC call.
func answerOf(err error) (string, error) {
	s := status.Convert(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return cellOf(fault.Reason(info.Reason), err)
		}
	}
	switch s.Code() {
	case codes.OK:
		return "yes", nil
	case codes.Unimplemented:
		return "no", nil
	}
	return "", err
}

// cellOf returns the matrix cell of a response with a reason. An invalid body is an error of this test, because
// permissions are checked after parsing.
func cellOf(reason fault.Reason, err error) (string, error) {
	switch reason {
	case fault.InvalidTicket:
		if strings.Contains(err.Error(), "body of action") {
			return "", fmt.Errorf("%w: give this test a body that the action reads", err)
		}
	case fault.InvalidToken:
		return "401", nil
	case fault.Forbidden:
		return "403", nil
	case fault.Unsupported:
		return "no", nil
	case fault.Limited, fault.Internal, "":
		return "", err
	}
	return "yes", nil // permitted, but not possible in the run's state
}

// fetch makes an HTTP request and returns its matrix cell.
func (c *caller) fetch(ctx context.Context, method, path, body string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, method, c.daemon.PageURL()+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.proxied {
		q.Header.Set(proxied, "192.0.2.1")
	}
	r, err := c.http.Do(q)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var e fault.Error
	if r.StatusCode >= 400 {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return "", err
		}
		if json.Unmarshal(b, &e) == nil && e.Reason != "" {
			return cellOf(e.Reason, fmt.Errorf("%s: %s", r.Status, bytes.TrimSpace(b)))
		}
	}
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprint(r.StatusCode), nil
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "no", nil
	case http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError:
		return "", errors.New(r.Status)
	}
	return "yes", nil
}

// route is a method of an HTTP path, with the request body.
type route struct{ method, path, body string }

// methods are the HTTP methods that every path is called with. HEAD is omitted: it is answered like GET, but without
// a reason to compare.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions}

// routesOf returns every method of every path of the patterns that a daemon registers.
func routesOf(patterns, actions []string) (all []route) {
	queries := map[string]string{"/api/find": "?source=web&sequence=1", "/api/text": "?source=web&sequence=1"}
	for _, pattern := range patterns {
		path := strings.Replace(pattern[strings.Index(pattern, "/"):], "{step}", "0", 1)
		paths, of := []string{path + queries[path]}, []string{""}
		if strings.Contains(path, "{action}") {
			paths, of = nil, actions
			for _, a := range actions {
				paths = append(paths, strings.Replace(path, "{action}", a, 1))
			}
		}
		if path == "/api/" {
			paths = []string{"/api/unknown"}
		}
		for i, path := range paths {
			for _, method := range methods {
				body := ""
				if method == http.MethodPost {
					body = bodiesOf(of[i])[0].message
				}
				all = append(all, route{method, path, body})
			}
		}
	}
	return all
}

// row is a call with each caller's result.
type row struct {
	call  string
	cells []string // by caller
}

// matrix makes every call as every caller. Callers of the first group run in parallel. Those of the second group are
// one identity to the daemon, so that their searches would exclude each other, and run one after the other.
func matrix(t *testing.T, groups [2][]*caller,
	each func(c *caller, answered func(call string, cell string, err error))) (rows []row) {
	all := slices.Concat(groups[0], groups[1])
	columns := make([][]row, len(all))
	one := func(i int) {
		each(all[i], func(call, cell string, err error) {
			if err != nil {
				t.Errorf("%s as %s: %v", call, all[i].name, err)
			}
			columns[i] = append(columns[i], row{call, []string{cell}})
		})
	}
	var group sync.WaitGroup
	for i := range groups[0] {
		group.Go(func() { one(i) })
	}
	group.Wait()
	for i := range groups[1] {
		one(len(groups[0]) + i)
	}
	for n, r := range columns[0] {
		for _, c := range columns[1:] {
			if c[n].call != r.call {
				t.Fatalf("callers make other calls: %q, %q", c[n].call, r.call)
			}
			r.cells = append(r.cells, c[n].cells...)
		}
		rows = append(rows, r)
	}
	return rows
}

// TestDocs_PermissionMatrix makes every call that a daemon registers as every kind of caller, and compares the results
// with docs/reference/permissions.md. After a new call or a changed result it fails until the page is regenerated with
// -update and reviewed.
func TestDocs_PermissionMatrix(t *testing.T) {
	groups := callers(t)
	d := groups[0][0].daemon
	run := d.run.Info().Run
	actions := actionsOf(t, groups[1][0])
	calls := matrix(t, groups, func(c *caller, answered func(string, string, error)) {
		for _, method := range d.flight.Methods() {
			if strings.HasSuffix(method, "/DoAction") {
				continue
			}
			abouts, all := messages(method, run, c)
			for i, m := range all {
				cell, err := answerOf(c.invoke(t.Context(), method, m))
				answered(callName(strings.TrimPrefix(method, "/arrow.flight.protocol.FlightService/"), abouts[i]), cell, err)
			}
		}
	})
	acted := matrix(t, groups, func(c *caller, answered func(string, string, error)) {
		for _, action := range append(slices.Clone(actions), "unknown") {
			for _, q := range bodiesOf(action) {
				body := []byte(strings.ReplaceAll(q.message, "%s", c.slug()))
				cell, err := answerOf(c.invoke(t.Context(), "/arrow.flight.protocol.FlightService/DoAction",
					&flight.Action{Type: action, Body: body}))
				answered(callName(action, q.about), cell, err)
			}
		}
	})
	routes := routesOf(d.http.page.Routes(), actions)
	paths := matrix(t, groups, func(c *caller, answered func(string, string, error)) {
		for _, r := range routes {
			cell, err := c.fetch(t.Context(), r.method, r.path, r.body)
			answered(r.method+" "+r.path, cell, err)
		}
	})
	goldentest.Compare(t, "../../../docs/reference/permissions.md", func(w io.Writer) error {
		heads := []string{}
		for _, c := range slices.Concat(groups[0], groups[1]) {
			heads = append(heads, c.name)
		}
		_, err := io.WriteString(w, permissionsHead)
		write := func(format string, a ...any) {
			if err == nil {
				_, err = fmt.Fprintf(w, format, a...)
			}
		}
		table := func(title, about, what string, rows []row) {
			write("\n## %s\n\n%s\n\n| %s | %s |\n|%s\n", title, about, what, strings.Join(heads, " | "),
				strings.Repeat(" --- |", len(heads)+1))
			for _, r := range rows {
				write("| %s | %s |\n", r.call, strings.Join(r.cells, " | "))
			}
		}
		table("Flight and health", "Methods of other services than Flight have their full names.", "method", calls)
		table("Actions", "The calls of `DoAction`.", "action", acted)
		table("HTTP", "HEAD is answered as GET. Other methods and paths are answered with 404 to every caller.", "path",
			offered(paths))
		return err
	})
}

// TestMetrics_RequestRatePerIdentityIsLimited makes more requests than an identity may make within seconds.
func TestMetrics_RequestRatePerIdentityIsLimited(t *testing.T) {
	d := start(t, settings(t))
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for range 1000 {
		r, err := client.Get(d.PageURL() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		switch r.StatusCode {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			return
		default:
			t.Fatal(r.Status)
		}
	}
	t.Error("1,000 requests for metrics were answered")
}

func callName(call, about string) string {
	call = "`" + call + "`"
	if about != "" {
		call += ", " + about
	}
	return call
}

// offered merges the methods of a path that have the same results. It omits methods that are not offered to any
// caller.
func offered(rows []row) (merged []row) {
	byPath := map[string]map[string][]string{} // methods by their results
	var order []string
	for _, r := range rows {
		method, path, _ := strings.Cut(r.call, " ")
		path, _, _ = strings.Cut(path, "?")
		cells := strings.Join(r.cells, " ")
		if strings.Trim(cells, "no ") == "" {
			continue
		}
		if byPath[path] == nil {
			byPath[path] = map[string][]string{}
			order = append(order, path)
		}
		byPath[path][cells] = append(byPath[path][cells], method)
	}
	for _, path := range order {
		groups := slices.Collect(maps.Keys(byPath[path]))
		slices.SortFunc(groups, func(a, b string) int { return cmp.Compare(byPath[path][a][0], byPath[path][b][0]) })
		for _, cells := range groups {
			merged = append(merged, row{"`" + path + "`: " + strings.Join(byPath[path][cells], ", "), strings.Fields(cells)})
		}
	}
	return merged
}

// actionsOf returns the actions that a daemon lists.
func actionsOf(t *testing.T, c *caller) (names []string) {
	t.Helper()
	stream, err := flight.NewClientFromConn(c.conn, nil).ListActions(t.Context(), &flight.Empty{})
	for err == nil {
		var a *flight.ActionType
		if a, err = stream.Recv(); err == nil {
			names = append(names, a.Type)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return names
}
