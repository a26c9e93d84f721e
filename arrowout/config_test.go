package arrowout_test

import (
	"fmt"
	"testing"
	"time"

	"loaderd/arrowout"
)

func TestConfig_Validate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*arrowout.Config)
		want   string
	}{
		{"default", func(*arrowout.Config) {}, "[]"},
		{"any port", func(c *arrowout.Config) { c.Listen = "127.0.0.1:0" }, "[]"},
		{"everybody", func(c *arrowout.Config) { c.Listen = ":0" }, "[listen]"},
		{"everybody, by name", func(c *arrowout.Config) { c.Listen, c.Insecure = ":0", true }, "[]"},
		{"tokens in the clear", func(c *arrowout.Config) { c.Listen, c.TokenFile = ":0", "x" }, "[listen]"},
		{"identities and TLS", func(c *arrowout.Config) {
			c.Listen, c.Identities, c.Cert, c.Key = ":0", "x", "x", "x"
		}, "[]"},
		{"IPv6", func(c *arrowout.Config) { c.Listen = "[::1]:8815" }, "[]"},
		{"no port", func(c *arrowout.Config) { c.Listen = "localhost" }, "[listen]"},
		{"port", func(c *arrowout.Config) { c.Listen = "localhost:65536" }, "[listen]"},
		{"key missing", func(c *arrowout.Config) { c.Cert = "a" }, "[cert]"},
		{"cert missing", func(c *arrowout.Config) { c.Key, c.ClientCA = "a", "b" }, "[cert client_ca]"},
		{"small batch", func(c *arrowout.Config) { c.BatchBytes = 64<<10 - 1 }, "[batch_bytes]"},
		{"large batch", func(c *arrowout.Config) { c.BatchBytes = 4 << 20 }, "[batch_bytes]"},
		{"all", func(c *arrowout.Config) {
			*c = arrowout.Config{Key: "k", Keepalive: 2 * time.Hour}
		}, "[listen cert batch_bytes keepalive send_bytes slow_reader_timeout max_connections max_connections_per_host " +
			"max_streams max_streams_per_identity max_committing_jobs_per_identity]"},
	} {
		c := arrowout.Default()
		tc.change(&c)
		fields := []string{}
		for _, e := range c.Validate() {
			fields = append(fields, e.Field)
		}
		if fmt.Sprint(fields) != tc.want {
			t.Errorf("%s: got %v, want %s", tc.name, fields, tc.want)
		}
	}
}
