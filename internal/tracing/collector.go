package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector takes spans by OTLP over HTTP (opentelemetry.io/docs/specs/otlp). OpenTelemetry's SDK and exporter are 1.1 MB of the program, most of it for what no
// span here has: metrics about themselves, limits, samplers, links, a gateway between HTTP and gRPC.
type collector struct {
	url     string
	headers http.Header
	gzip    bool
	http    *http.Client
}

// exportTimeout bounds how long the collector may take for one batch of spans.
const exportTimeout = 5 * time.Second

// tracesPath is where a collector takes traces whose address says no path.
const tracesPath = "/v1/traces"

// newCollector reads what the environment says of exporters: headers, certificates and compression.
func newCollector(endpoint string) (*collector, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = trust(); err != nil {
		return nil, err
	}
	c := &collector{url: u.String(), headers: http.Header{}, gzip: setting("COMPRESSION") == "gzip", http: &http.Client{Transport: transport, Timeout: exportTimeout}}
	headers, err := readPairs("OTEL_EXPORTER_OTLP_HEADERS", setting("HEADERS"))
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		c.headers.Set(name, value)
	}
	c.headers.Set("Content-Type", protobufType)
	if c.gzip {
		c.headers.Set("Content-Encoding", "gzip")
	}
	return c, nil
}

// setting is one of the environment for all exporters, or that for traces, which goes before.
func setting(name string) string {
	if of := strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name)); of != "" {
		return of
	}
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_" + name))
}

// readPairs reads a list such as api-key=secret,other=a%20b, which is not repeated where it is wrong.
func readPairs(variable, list string) (map[string]string, error) {
	pairs := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: want name=value,name=value, with values as in URLs", variable)
		}
		pairs[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return pairs, nil
}

// trust is who a collector must be, and who this is to it, where the environment has certificates.
func trust() (*tls.Config, error) {
	c := &tls.Config{}
	if file := setting("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s holds no certificate", file)
		}
	}
	if file, key := setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY"); file != "" && key != "" {
		own, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

const protobufType = "application/x-protobuf"

// mostAnswer bounds what is read of a collector's answer.
const mostAnswer = 64 << 10

// take hands spans over. Who exports traces may write them as TracesData: it has the fields of ExportTraceServiceRequest.
func (c *collector) take(ctx context.Context, of *spans.TracesData) error {
	body, err := proto.Marshal(of)
	if err != nil {
		return err
	}
	if c.gzip {
		body = compressed(body)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = c.headers.Clone()
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("answer of %s: %w", c.url, err)
	}
	if response.StatusCode/100 != 2 {
		err := fmt.Errorf("%s answers %s: %.500q", c.url, response.Status, answer)
		switch response.StatusCode {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // a date, which is allowed too, counts as nothing
			return &busyError{err, time.Duration(seconds) * time.Second}
		}
		return err
	}
	if response.Header.Get("Content-Type") != protobufType {
		return nil
	}
	return refused(answer)
}

// busyError says that a collector takes nothing now. By OTLP's specification the same is then sent again, after the time that it names.
type busyError struct {
	error
	after time.Duration
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// refused is what an ExportTraceServiceResponse says of spans that were not taken: partial_success, field 1, with rejected_spans, field 1, and error_message, field 2.
func refused(answer []byte) error {
	var rejected uint64
	var why string
	err := fields(answer, func(number protowire.Number, part []byte, _ uint64) error {
		if number != 1 {
			return nil
		}
		return fields(part, func(number protowire.Number, text []byte, value uint64) error {
			switch number {
			case 1:
				rejected = value
			case 2:
				why = string(text)
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("the collector's answer: %w", err)
	}
	if rejected > 0 || why != "" {
		return fmt.Errorf("the collector refuses %d spans: %s", rejected, why)
	}
	return nil
}

// fields hands over the fields of a message, by their bytes or their value.
func fields(message []byte, field func(number protowire.Number, part []byte, value uint64) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var part []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			part, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := field(number, part, value); err != nil {
			return err
		}
	}
	return nil
}
