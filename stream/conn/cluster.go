package conn

// Clustered reports whether the servers are members of a cluster. The response of one member can then lag behind what
// the cluster has committed. Once true it stays true, also while the connection is down.
func (c *Client) Clustered() bool {
	if c.nc.ConnectedClusterName() != "" {
		c.clustered.Store(true)
	}
	return c.clustered.Load()
}
