package webui_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/ledger"
	"loaderd/internal/natstest"
	"loaderd/internal/webui"
	"loaderd/loader/fault"
)

func TestMain(m *testing.M) { natstest.VerifyTestMain(m) }

// serve serves the page of a fake daemon.
func serve(t testing.TB, f *fake) *httptest.Server {
	t.Helper()
	page := webui.New(webui.Config{Actions: f, RequiresAuth: func() bool {
		return !f.open
	}, Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(page)
	t.Cleanup(func() {
		page.Close()
		s.CloseClientConnections()
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// call sends a request and returns the response and its body.
func call(t testing.TB, method, address, body string, header ...string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			q.Host = header[i+1]
		}
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

func TestAPI_ReturnsDocuments(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	for _, test := range []struct {
		name, path string
		into       any
		check      func(any) bool
	}{
		{"status", "/api/status", &api.Status{}, func(v any) bool {
			return v.(*api.Status).Run == "demo" && len(v.(*api.Status).Ranks) == 4
		}},
		{"history", "/api/history", &api.History{}, func(v any) bool { return len(v.(*api.History).Steps.First) == 240 }},
		{"a step in parts", "/api/step/12?documents=true", &ledger.Step{}, func(v any) bool {
			s := v.(*ledger.Step)
			return len(s.Rows) == 16 && s.Index == 12 && len(s.Documents) > 16
		}},
		{"a step without documents", "/api/step/12", &ledger.Step{}, func(v any) bool {
			return len(v.(*ledger.Step).Documents) == 0
		}},
		{"find", "/api/find?id=crawl-7", &[]api.FoundRow{}, func(v any) bool { return len(*v.(*[]api.FoundRow)) == 2 }},
		{"find nothing", "/api/find?source=web&sequence=9", &[]api.FoundRow{}, func(v any) bool {
			return *v.(*[]api.FoundRow) != nil && len(*v.(*[]api.FoundRow)) == 0
		}},
		{"text", "/api/text?source=web&sequence=9&start=4&tokens=3", &api.DocumentText{}, func(v any) bool {
			return len(v.(*api.DocumentText).Tokens) == 3 && v.(*api.DocumentText).Start == 4
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, body := call(t, "GET", s.URL+test.path, "")
			if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" ||
				r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %v: %.200s", r.Status, r.Header, body)
			}
			if err := json.Unmarshal([]byte(body), test.into); err != nil || !test.check(test.into) {
				t.Errorf("%v: %.300s", err, body)
			}
		})
	}
	if _, body := f.took("find"); body != `{"sequence":9,"source":"web"}` {
		t.Errorf("find was asked with %s", body)
	}
}

func TestAPI_RefusesInvalidRequests(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"no such file", "GET", "/secret", "", 404, "this daemon has nothing there"},
		{"no such document", "GET", "/api/everything", "", 404, "there is no GET"},
		{"another method", "POST", "/api/status", "", 404, "there is no POST"},
		{"a step that is no number", "GET", "/api/step/-1", "", 400, "step \\\"-1\\\": want the number"},
		{"a step that is not planned", "GET", "/api/step/9999999", "", 404, "step 9999999 is not planned"},
		{"a key that is not known", "GET", "/api/find?ID=4", "", 400, "the query has the key"},
		{"a query that is none", "GET", "/api/find?id=%zz", "", 400, "the query cannot be read"},
		{"documents neither true nor false", "GET", "/api/step/1?documents=maybe", "", 400, "want true or false"},
		{"a sequence that is no number", "GET", "/api/text?sequence=x", "", 400, "want a number"},
		{"an action that is none", "POST", "/api/action/commit", "{}", 404, "there is no POST"},
		{"a body that is no JSON", "POST", "/api/action/flush", "flush", 400, "it is no JSON"},
		{"a body that is too long", "POST", "/api/action/mix", `"` + strings.Repeat("x", 1<<20) + `"`, 400, "too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, body := call(t, test.method, s.URL+test.path, test.body)
			var e fault.Error
			if err := json.Unmarshal([]byte(body), &e); err != nil || r.StatusCode != test.status ||
				!strings.Contains(body, test.says) || e.Advice == "" {
				t.Errorf("%s %s, want %d and %q", r.Status, body, test.status, test.says)
			}
		})
	}
}

func TestAPI_StatusCodeOfErrors(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	for _, test := range []struct {
		err    error
		status int
		reason fault.Reason
	}{
		{&fault.Error{Reason: fault.InvalidToken}, 401, fault.InvalidToken},
		{&fault.Error{Reason: fault.Forbidden}, 403, fault.Forbidden},
		{&fault.Error{Reason: fault.InvalidTicket}, 400, fault.InvalidTicket},
		{&fault.Error{Reason: fault.StepPurged}, 404, fault.StepPurged},
		{&fault.Error{Reason: fault.RunReplaced}, 409, fault.RunReplaced},
		{&fault.Error{Reason: fault.Limited}, 429, fault.Limited},
		{&fault.Error{Reason: fault.Unsupported}, 404, fault.Unsupported},
		{&fault.Error{Reason: fault.NotLeading}, 503, fault.NotLeading},
		{&fault.Error{Reason: fault.Internal}, 500, fault.Internal},
		{errors.New("open /etc/secret: no such file"), 500, fault.Internal},
	} {
		f.set(func(f *fake) { f.fail = test.err })
		r, body := call(t, "POST", s.URL+"/api/action/flush", "{}")
		var e fault.Error
		if err := json.Unmarshal([]byte(body), &e); err != nil || r.StatusCode != test.status || e.Reason != test.reason ||
			strings.Contains(body, "secret") {
			t.Errorf("%v: %s %s, want %d %s", test.err, r.Status, body, test.status, test.reason)
		}
	}
}

// All responses contain the security headers.
func TestPage_SecurityHeaders(t *testing.T) {
	s := serve(t, newFake())
	for _, path := range []string{"/", "/main.js", "/style.css", "/api/status", "/api/none", "/none"} {
		r, _ := call(t, "GET", s.URL+path, "")
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
			"img-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
			"require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: %q has no %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" ||
			r.Header.Get("Referrer-Policy") != "no-referrer" || len(r.Cookies()) > 0 {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

// A page of another site can neither send an action nor, by DNS rebinding, read anything.
func TestPage_RefusesOtherSites(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	host := strings.TrimPrefix(s.URL, "http://")
	port := host[strings.LastIndex(host, ":"):]
	for _, test := range []struct {
		name, method, path string
		header             []string
		status             int
	}{
		{"own page", "POST", "/api/action/flush", []string{"Origin", s.URL, "Sec-Fetch-Site", "same-origin"}, 200},
		{"a program", "POST", "/api/action/flush", nil, 200},
		{"another site", "POST", "/api/action/flush", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another site, an older browser", "POST", "/api/action/flush", []string{"Origin", "http://evil.example"}, 403},
		{"a name of another site", "GET", "/api/status", []string{"Host", "evil.example" + port}, 403},
		{"localhost", "GET", "/api/status", []string{"Host", "LOCALHOST" + port}, 200},
		{"an address of six", "GET", "/api/status", []string{"Host", "[::1]" + port}, 200},
		{"no port", "GET", "/api/status", []string{"Host", "127.0.0.1"}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r, body := call(t, test.method, s.URL+test.path, "{}", test.header...); r.StatusCode != test.status {
				t.Errorf("%s %s, want %d", r.Status, body, test.status)
			}
		})
	}
	f.set(func(f *fake) { f.open = false })
	if r, body := call(t, "GET", s.URL+"/api/status", "", "Host", "proxy.example", "Authorization",
		"Bearer read"); r.StatusCode != 200 {
		t.Errorf("by any name, with a token: %s %s", r.Status, body)
	}
}

func TestAPI_RequiresRole(t *testing.T) {
	f := newFake()
	f.open = false
	s := serve(t, f)
	_, next := listen(t, s.URL, "operate") // responses for one identity are not sent to another
	next()
	for _, test := range []struct {
		token, method, path string
		status              int
	}{
		{"", "GET", "/", 200},
		{"", "GET", "/api/status", 401},
		{"", "GET", "/api/events", 401},
		{"guess", "GET", "/api/history", 401},
		{"read", "GET", "/api/status", 200},
		{"read", "GET", "/api/step/4", 403},
		{"read", "GET", "/api/text?sequence=1", 403},
		{"read", "POST", "/api/action/flush", 403},
		{"operate", "GET", "/api/text?sequence=1&tokens=4", 200},
		{"operate", "POST", "/api/action/flush", 200},
	} {
		header := []string{}
		if test.token != "" {
			header = []string{"Authorization", "Bearer " + test.token}
		}
		r, body := call(t, test.method, s.URL+test.path, "{}", header...)
		if r.StatusCode != test.status || test.status == 401 && r.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s as %q: %s %.200s, want %d", test.method, test.path, test.token, r.Status, body, test.status)
		}
	}
	var may [2]api.Status
	for i, token := range []string{"read", "operate"} {
		_, body := call(t, "GET", s.URL+"/api/status", "", "Authorization", "Bearer "+token)
		if err := json.Unmarshal([]byte(body), &may[i]); err != nil {
			t.Fatal(err)
		}
	}
	if len(may[0].AllowedActions) != 2 || len(may[1].AllowedActions) != 13 {
		t.Errorf("may: %v and %v", may[0].AllowedActions, may[1].AllowedActions)
	}
}

func TestFiles_CachedAndCompressed(t *testing.T) {
	s := serve(t, newFake())
	plain, body := call(t, "GET", s.URL+"/main.js", "", "Accept-Encoding", "identity")
	small, packed := call(t, "GET", s.URL+"/main.js", "", "Accept-Encoding", "br, gzip;q=0.8")
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(z)
	if err != nil || string(unpacked) != body || len(packed) >= len(body) ||
		small.Header.Get("ETag") == plain.Header.Get("ETag") {
		t.Errorf("%v: %d bytes of %d", err, len(packed), len(body))
	}
	if r, _ := call(t, "GET", s.URL+"/main.js", "", "If-None-Match", plain.Header.Get("ETag"), "Accept-Encoding",
		"gzip;q=0"); r.StatusCode != http.StatusNotModified {
		t.Errorf("asked again: %s", r.Status)
	}
	if !strings.HasPrefix(plain.Header.Get("Content-Type"), "text/javascript") {
		t.Error(plain.Header)
	}
}

// heard returns a function that reads the next event of a response.
func heard(t testing.TB, r io.Reader) func() (string, []byte) {
	t.Helper()
	lines := bufio.NewReaderSize(r, 64<<10)
	return func() (name string, data []byte) {
		for {
			line, err := lines.ReadBytes('\n')
			switch {
			case err != nil:
				return "", []byte(err.Error())
			case bytes.HasPrefix(line, []byte("event: ")):
				name = string(line[7 : len(line)-1])
			case bytes.HasPrefix(line, []byte("data: ")):
				data = line[6:]
			case len(line) == 1:
				return name, data
			}
		}
	}
}

func listen(t testing.TB, url, token string, header ...string) (*http.Response, func() (string, []byte)) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", url+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r, heard(t, r.Body)
}

func TestEvents_StatusAndErrors(t *testing.T) {
	f := newFake()
	f.open = false
	s := serve(t, f)
	r, next := listen(t, s.URL, "read")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" || !r.Uncompressed {
		t.Fatalf("%s %v", r.Status, r.Header)
	}
	var before uint64
	for range 3 {
		name, data := next()
		var got api.Status
		if err := json.Unmarshal(data, &got); err != nil || name != "status" || got.Planned <= before ||
			len(got.AllowedActions) != 2 {
			t.Fatalf("%v: %s %.200s", err, name, data)
		}
		before = got.Planned
	}
	t.Run("a failure passes", func(t *testing.T) {
		f.set(func(f *fake) {
			f.fail = &fault.Error{Reason: fault.NotLeading, Message: "no leader", Advice: "wait"}
		})
		name, data := next()
		for name == "status" {
			name, data = next()
		}
		var e fault.Error
		if err := json.Unmarshal(data, &e); err != nil || name != "problem" || e.Reason != fault.NotLeading {
			t.Fatalf("%v: %s %s", err, name, data)
		}
		f.set(func(f *fake) { f.fail = nil })
		for name != "status" {
			if name, data = next(); name == "" {
				t.Fatalf("the stream ended: %s", data)
			}
		}
	})
	t.Run("who is not let in any more hears it and is left", func(t *testing.T) {
		f.set(func(f *fake) {
			f.fail = &fault.Error{Reason: fault.InvalidToken, Message: "expired", Advice: "make another"}
		})
		name, data := next()
		for name == "status" {
			name, data = next()
		}
		if name != "problem" || !strings.Contains(string(data), "INVALID_TOKEN") {
			t.Fatalf("%s %s", name, data)
		}
		if name, data := next(); name != "" {
			t.Errorf("the stream goes on: %s %s", name, data)
		}
	})
}

// Without compression the page sends the same events.
func TestEvents_Uncompressed(t *testing.T) {
	s := serve(t, newFake())
	r, next := listen(t, s.URL, "", "Accept-Encoding", "identity")
	for range 2 {
		if name, data := next(); name != "status" || !json.Valid(data) || r.Header.Get("Content-Encoding") != "" {
			t.Fatalf("%s %.100s", name, data)
		}
	}
}

// The status is requested once per second for an identity, regardless of its number of open pages.
func TestEvents_StatusIsSharedByPages(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	const pages, rounds = 20, 3
	nexts := []func() (string, []byte){}
	for range pages {
		_, next := listen(t, s.URL, "")
		nexts = append(nexts, next)
	}
	began := time.Now()
	before, _ := f.took("status")
	for range rounds {
		for _, next := range nexts {
			if name, data := next(); name != "status" {
				t.Fatalf("%s %s", name, data)
			}
		}
	}
	after, _ := f.took("status")
	if most := int(time.Since(began).Seconds()) + 2; after-before > most {
		t.Errorf("%d answers were made for %d pages in %s", after-before, pages, time.Since(began))
	}
	for range pages {
		call(t, "GET", s.URL+"/api/history", "")
	}
	if n, _ := f.took("history"); n > 1+int(time.Since(began).Seconds())/2 {
		t.Errorf("history was made %d times", n)
	}
}

func TestAPI_Actions(t *testing.T) {
	f := newFake()
	s := serve(t, f)
	for action, body := range map[string]string{"flush": "", "seal": `{"source":"web"}`,
		"mix": `{"weights":{"web":1,"math":2}}`, "filter": `{"where":""}`, "schedule": `{"phases":[{"rows":8}]}`,
		"checkpoint": "{}", "measure": "{}"} {
		r, answer := call(t, "POST", s.URL+"/api/action/"+action, body)
		_, got := f.took(action)
		want := body
		if want == "" {
			want = "{}"
		}
		if r.StatusCode != 200 || !json.Valid([]byte(answer)) || got != want {
			t.Errorf("%s: %s %s, asked with %s", action, r.Status, answer, got)
		}
	}
}

// Close ends event streams, so that the server can shut down.
func TestClose_EndsEventStreams(t *testing.T) {
	page := webui.New(webui.Config{Actions: newFake(), RequiresAuth: func() bool {
		return false
	}, Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(page)
	_, next := listen(t, s.URL, "")
	next()
	page.Close()
	for name := "status"; name != ""; {
		name, _ = next()
	}
	s.Close()
	http.DefaultClient.CloseIdleConnections()
}

func TestAPI_LoginCodeWorksOnce(t *testing.T) {
	f := newFake()
	f.open, f.codes = false, []string{"17.once"}
	s := serve(t, f)
	for _, test := range []struct {
		method, body string
		header       []string
		status       int
		part         string
	}{
		{"GET", "", nil, 404, ""},
		{"POST", "{", nil, 400, "body of login"},
		{"POST", `{"code":"` + strings.Repeat("a", 2000) + `"}`, nil, 400, "body of login"},
		{"POST", `{"code":"16.guess"}`, nil, 401, "INVALID_TOKEN"},
		{"POST", `{"code":"17.once"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "another site"},
		{"POST", `{"code":"17.once"}`, nil, 200, `"token":"operate"`},
		{"POST", `{"code":"17.once"}`, nil, 401, "INVALID_TOKEN"},
	} {
		r, body := call(t, test.method, s.URL+"/api/login", test.body, test.header...)
		if r.StatusCode != test.status || !strings.Contains(body, test.part) {
			t.Errorf("%s %.40s: %s %s, want %d and %q", test.method, test.body, r.Status, body, test.status, test.part)
		}
	}
}

func FuzzQueries(f *testing.F) {
	for _, seed := range []string{"id=a&source=b", "sequence=1", "sequence=-1", "documents=1", "%zz", "a=b;c=d",
		"start=4&tokens=99999999999999999999"} {
		f.Add("step/4", seed)
		f.Add("find", seed)
		f.Add("text", seed)
	}
	f.Add("step/18446744073709551615", "")
	page := webui.New(webui.Config{Actions: newFake(), RequiresAuth: func() bool {
		return true
	}, Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, path, query string) {
		q := httptest.NewRequest("GET", "/", nil)
		q.URL = &url.URL{Path: "/api/" + path, RawQuery: query}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, q)
		if w.Code == 200 || w.Code >= 300 && w.Code < 500 {
			return
		}
		t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
	})
}

func TestAPI_AuthenticatesBeforeReadingBody(t *testing.T) {
	f := newFake()
	f.open = false
	s := serve(t, f)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _,
		err := io.WriteString(c,
		"POST /api/action/mix HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusUnauthorized {
		t.Error(r.Status)
	}
}

func TestCallerOf_ProxiedRequestIsNotLocal(t *testing.T) {
	for _, header := range []string{"", "Accept", "Forwarded", "X-Forwarded-For", "Via", "X-Real-IP"} {
		q := httptest.NewRequest(http.MethodGet, "/api/status", nil)
		q.RemoteAddr = "127.0.0.1:99"
		if header != "" {
			q.Header.Set(header, "192.0.2.7")
		}
		if got, want := webui.CallerOf(q).IsLocal(), header == "" || header == "Accept"; got != want {
			t.Errorf("%q: local is %v", header, got)
		}
	}
}
