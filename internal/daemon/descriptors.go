package daemon

import (
	"log/slog"

	"loaderd/internal/config"
)

// The Flight server may use half of the descriptors and the HTTP server an eighth. The rest is for the streams and
// the embedded NATS server.
const (
	flightDescriptorShare = 2
	httpDescriptorShare   = 8
)

// limitConnections lowers the connection limits to those of a process with the given number of descriptors.
func limitConnections(c *config.Config, descriptors int, log *slog.Logger) {
	for _, x := range []struct {
		setting string
		limit   *int
		part    int
	}{{"flight.max_connections", &c.Flight.MaxConnections, flightDescriptorShare},
		{"http.max_connections", &c.HTTP.MaxConnections,
			httpDescriptorShare}} {
		if most := max(descriptors/x.part, 1); *x.limit > most {
			log.Warn("lowered a limit of connections: the process has few file descriptors (ulimit -n)", "setting",
				x.setting, "configured", *x.limit, "limit", most,
				"descriptors", descriptors)
			*x.limit = most
		}
	}
}
