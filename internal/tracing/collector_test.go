package tracing_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"loaderd/internal/certtest"
	"loaderd/internal/tracetest"
	"loaderd/internal/tracing"
)

// export hands one span over, and returns what is logged.
func export(t *testing.T, url string) string {
	t.Helper()
	var log bytes.Buffer
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: url, Share: 1}, "test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, stored := tracer.Publish("docs", "a")
	stored()
	tracer.Close(t.Context())
	return log.String()
}

// The environment's headers, certificates and compression count, those for traces before those for everything.
func TestTheEnvironmentCounts(t *testing.T) {
	c := &tracetest.Collector{}
	var headers http.Header
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		headers = q.Header
		c.Handler(t).ServeHTTP(w, q)
	}))
	folder := t.TempDir()
	cert, key := certtest.SelfSigned(t, folder, "localhost")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"CERTIFICATE": cert, "CLIENT_CERTIFICATE": cert, "CLIENT_KEY": key, "COMPRESSION": "gzip",
		"HEADERS": "api-key=general", "TRACES_HEADERS": "api-key=a%20secret, tenant = 7,"} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	if log := export(t, server.URL+"/v1/traces"); log != "" {
		t.Error(log)
	}
	if len(c.Traces()) != 1 {
		t.Errorf("the collector has the traces %v", c.Traces())
	}
	if headers.Get("api-key") != "a secret" || headers.Get("tenant") != "7" || headers.Get("Content-Encoding") != "gzip" {
		t.Errorf("headers are %v", headers)
	}
}

// What the environment says wrongly is an error that names it.
func TestTheEnvironmentIsWrong(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HEADERS": "api-key", "CERTIFICATE": empty, "CLIENT_CERTIFICATE": empty} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
			t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", empty)
			_, err := tracing.New(t.Context(), tracing.Config{Endpoint: "http://127.0.0.1:4318"}, "test", slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_"+name) || name == "HEADERS" && strings.Contains(err.Error(), value) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// What a collector does not take, the log says with the collector's own words.
func TestWhatACollectorRefuses(t *testing.T) {
	partial, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		status int
		answer []byte
		want   string
	}{
		{"all taken", http.StatusOK, nil, ""},
		{"nothing taken", http.StatusServiceUnavailable, []byte("come later"), "come later"},
		{"some taken", http.StatusOK, partial, "refuses 3 spans: too old"},
		{"cut short", http.StatusOK, partial[:len(partial)-1], "unexpected EOF"},
		{"no message", http.StatusOK, []byte("<html>"), "the collector's answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(test.status)
				_, _ = w.Write(test.answer)
			}))
			t.Cleanup(server.Close)
			if log := export(t, server.URL); test.want == "" && log != "" || !strings.Contains(log, test.want) {
				t.Errorf("the log says %q, want %q", log, test.want)
			}
		})
	}
}

// What a collector does not take now, it is sent again.
func TestACollectorThatIsBusy(t *testing.T) {
	c := &tracetest.Collector{}
	taken := make(chan struct{})
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[asked-1])
			return
		}
		c.Handler(t).ServeHTTP(w, q)
		close(taken)
	}))
	t.Cleanup(server.Close)
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: server.URL, Share: 1}, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close(t.Context())
	for range 512 { // as many as are sent together, at once
		_, stored := tracer.Publish("docs", "a")
		stored()
	}
	<-taken
	if len(c.Traces()) == 0 {
		t.Error("the collector has no traces")
	}
}
