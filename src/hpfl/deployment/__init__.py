"""The same round for real: cloud, edge and UE processes over gRPC with mutual TLS."""
