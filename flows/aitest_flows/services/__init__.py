"""Services in the background: MLflow, Prefect, workers, an S3 server, the webhook receiver (`aitest up`, `infra/local`)."""
