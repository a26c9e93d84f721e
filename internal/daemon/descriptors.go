package daemon

import (
	"log/slog"

	"loaderd/internal/config"
)

// Flight and HTTP leave descriptors to the streams and their NATS server, and to each other: half of them and an
// eighth.
const (
	flightPart = 2
	httpPart   = 8
)

// fitDescriptors lowers the limits of connections to what a process with so many descriptors can serve.
func fitDescriptors(c *config.Config, descriptors int, log *slog.Logger) {
	for _, x := range []struct {
		setting string
		limit   *int
		part    int
	}{{"flight.max_connections", &c.Flight.MaxConnections, flightPart}, {"http.max_connections", &c.HTTP.MaxConnections,
		httpPart}} {
		if most := max(descriptors/x.part, 1); *x.limit > most {
			log.Warn("lowered a limit of connections: the process may have few descriptors open (ulimit -n)", "setting",
				x.setting, "configured", *x.limit, "limit", most,
				"descriptors", descriptors)
			*x.limit = most
		}
	}
}
