-- Prefect and MLflow both keep their schema's version in a table of the same name, so each has a database of its own.
CREATE DATABASE prefect;
CREATE DATABASE mlflow;
