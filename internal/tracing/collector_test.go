package tracing_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"loaderd/internal/certtest"
	"loaderd/internal/tracetest"
	"loaderd/internal/tracing"
)

// export exports one span, and returns the log output.
func export(t *testing.T, url string) string {
	t.Helper()
	var log bytes.Buffer
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: url, Share: 1}, "test",
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, stored := tracer.Publish("docs", "a")
	stored()
	tracer.Close(t.Context())
	return log.String()
}

// The exporter uses headers, certificates and compression from the environment.
func TestNew_UsesExporterSettingsFromEnvironment(t *testing.T) {
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
	for name, value := range map[string]string{"CERTIFICATE": cert, "CLIENT_CERTIFICATE": cert, "CLIENT_KEY": key,
		"COMPRESSION": "gzip",
		"HEADERS":     "api-key=general", "TRACES_HEADERS": "api-key=a%20secret,tenant=7"} {
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

// An invalid setting in the environment is logged.
func TestNew_LogsInvalidEnvironment(t *testing.T) {
	c := tracetest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", filepath.Join(t.TempDir(), "absent.pem"))
	if log := export(t, c.URL); !strings.Contains(log, "absent.pem") {
		t.Errorf("log is %q", log)
	}
}

// Resource attributes of the environment describe the process.
func TestNew_UsesResourceAttributesFromEnvironment(t *testing.T) {
	c := tracetest.Start(t)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	export(t, c.URL)
	for _, spans := range c.Traces() {
		if about := spans[0].About; about["deployment.environment.name"] != "staging" || about["service.name"] != "test" {
			t.Errorf("attributes are %v", about)
		}
	}
	if len(c.Traces()) != 1 {
		t.Errorf("the collector has the traces %v", c.Traces())
	}
}

// Spans that a collector rejects are logged with its message.
func TestTracer_LogsRejectedSpans(t *testing.T) {
	partial, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}})
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
		{"nothing taken", http.StatusForbidden, []byte("no quota"), "no quota"},
		{"some taken", http.StatusOK, partial, "too old"},
		{"no message", http.StatusOK, []byte("<html>"), "cannot export traces"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/x-protobuf")
				w.WriteHeader(test.status)
				_, _ = w.Write(test.answer)
			}))
			t.Cleanup(server.Close)
			if log := export(t, server.URL); test.want == "" && log != "" || !strings.Contains(log, test.want) {
				t.Errorf("the log is %q, want %q", log, test.want)
			}
		})
	}
}

// Spans are sent again if a collector is busy.
func TestTracer_RetriesBusyCollector(t *testing.T) {
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
	tracer, err := tracing.New(t.Context(), tracing.Config{Endpoint: server.URL, Share: 1}, "test",
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close(t.Context())
	for range 512 { // the size of a batch
		_, stored := tracer.Publish("docs", "a")
		stored()
	}
	<-taken
	if len(c.Traces()) == 0 {
		t.Error("the collector has no traces")
	}
}
