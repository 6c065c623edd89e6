"""Orders in the database that POSTGRES_URI names: python orders.py, and again for changes.

The first time it makes the table with a thousand orders. After that a hundred are changed, ten are
deleted, five get another number, and one has an amount that is no number.
"""

import os

import psycopg

TABLE = """
create table if not exists orders (
  id bigint primary key,
  customer text not null,
  amount numeric(10, 2),
  at timestamptz not null default now()
)
"""
FILL = """
insert into orders (id, customer, amount)
select n, 'customer ' || n % 7, 10.50 from generate_series(1, 1000) n
"""


def main() -> None:
    with psycopg.connect(os.environ["POSTGRES_URI"]) as connection:
        connection.execute(TABLE)
        row = connection.execute("select count(*) from orders").fetchone()
        if row == (0,):
            connection.execute(FILL)
            print("1,000 orders inserted")
            return
        connection.execute("update orders set amount = 12.50 where id <= 100")
        connection.execute("delete from orders where id between 101 and 110")
        connection.execute("update orders set id = id + 10000 where id between 111 and 115")
        connection.execute("insert into orders values (2000, 'customer 0', 'NaN')")
    print("116 orders changed")


if __name__ == "__main__":
    main()
